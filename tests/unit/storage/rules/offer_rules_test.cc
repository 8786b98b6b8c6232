// Rows of a stream: taken ones are tasks at once, wait between rounds, and belong to the next batch if nobody answered.
#include "storage/rules/offer_rules.h"

#include <gmock/gmock.h>

#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class OfferRulesTest : public StoreTest {
 protected:
  void SetUp() override {
    Create();
    ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok());
  }

  static OfferedGroup Group(const std::string& id, const std::vector<std::string>& taken, std::int64_t rows = 10) {
    OfferedGroup group{.by = "root", .request_id = id, .content = "rows of " + id, .rows = rows};
    for (const std::string& item : taken) group.taken.push_back({.item = item, .cost = 0.5});
    group.kept = static_cast<std::int64_t>(taken.size());
    group.record = "record of " + id;
    return group;
  }
  absl::StatusOr<std::int64_t> Offer(const std::vector<OfferedGroup>& groups) {
    return store_->Run(OfferRows, {.after = store_->status()->offered.rows, .groups = groups});
  }
  void OfferOrFail(const std::string& id, const std::vector<std::string>& taken) {
    const auto offered = Offer({Group(id, taken)});
    ASSERT_TRUE(offered.ok()) << offered.status();
  }
  AdvanceAnswer Advance() {
    const auto answer = store_->Run(AdvanceRound, {.round = store_->status()->round});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(AdvanceAnswer{});
  }
  std::vector<std::string> LeasedItems(const std::string& annotator, std::int64_t most) {
    std::vector<std::string> items;
    const auto answer = Acquire(annotator, most);
    EXPECT_TRUE(answer.ok()) << answer.status();
    for (const GrantedLease& lease : answer->leases) items.push_back(lease.item);
    return items;
  }
};

TEST_F(OfferRulesTest, TakenRowsAreTasksOfTheOpenRound) {
  Batch({"a", "b"});
  OfferOrFail("r1", {"s1", "s2"});
  EXPECT_EQ(store_->status()->round_items, 4);
  EXPECT_EQ(store_->status()->offered.rows, 10);
  EXPECT_EQ(store_->status()->offered.taken, 2);
  EXPECT_EQ(store_->status()->offered.waiting, 2);
  EXPECT_THAT(LeasedItems("ada", 9), ElementsAre("a", "b", "s1", "s2"));
  EXPECT_EQ(ItemNow("s2").cost, 0.5);
}

TEST_F(OfferRulesTest, ARoundEndsWithAsManyAnswersAsItsBatchHasItems) {
  Batch({"a", "b"});
  OfferOrFail("r1", {"s1", "s2", "s3"});
  LabelNext("ada", "cat");
  EXPECT_FALSE(Advance().closed);
  LabelNext("ada", "cat");
  EXPECT_TRUE(store_->status()->round_due);
  EXPECT_TRUE(Advance().closed);
}

TEST_F(OfferRulesTest, OpenItemsOfTheStreamComeFirstInTheNextBatch) {
  OfferOrFail("r1", {"s1"});  // before the first round
  EXPECT_EQ(store_->status()->open_slots, 0u);
  Batch({"a"});
  EXPECT_EQ(store_->status()->round_items, 2);
  OfferOrFail("r2", {"s2", "s3"});
  LabelNext("ada", "cat");  // s1
  EXPECT_EQ(ItemNow("s1").value, "cat");
  EXPECT_TRUE(Advance().closed);
  OfferOrFail("r3", {"s4"});  // between rounds
  Reopen();
  EXPECT_EQ(store_->status()->open_slots, 0u);
  Batch({"b", "s3", "c"});
  EXPECT_THAT(LeasedItems("ada", 9), ElementsAre("s2", "s4", "b", "s3", "c"));
  EXPECT_EQ(store_->status()->round_items, 5);
}

TEST_F(OfferRulesTest, ItemsThatWereDecidedDoNotComeBack) {
  Batch({"a", "b"});
  OfferOrFail("r1", {"s1", "s2"});
  for (const char* value : {"cat", "dog", "cat"}) LabelNext("ada", value);
  ASSERT_TRUE(store_->Run(SetItemAside, {.item = "s2", .by = "root", .reason = "broken"}).ok());
  EXPECT_TRUE(Advance().closed);
  Batch({"c"});
  EXPECT_THAT(LeasedItems("ada", 9), ElementsAre("c"));
}

TEST_F(OfferRulesTest, ARequestTakesEffectOnceAndItsRecordIsFoundAgain) {
  Batch({"a"});
  const OfferedGroup group = Group("r1", {"s1"});
  EXPECT_EQ(*store_->Run(FindOffer, group), std::nullopt);
  ASSERT_TRUE(Offer({group}).ok());
  Reopen();
  EXPECT_EQ(*store_->Run(FindOffer, group), "record of r1");
  EXPECT_EQ(Offer({group}).status().code(), absl::StatusCode::kAborted);
  OfferedGroup other = group;
  other.content = "other rows";
  EXPECT_EQ(store_->Run(FindOffer, other).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->status()->offered.rows, 10);
}

TEST_F(OfferRulesTest, GroupsAreWrittenAllOrNone) {
  Batch({"a"});
  const std::int64_t before = store_->status()->last_sequence;
  EXPECT_EQ(Offer({Group("r1", {"s1"}), Group("r2", {"a"})}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Offer({Group("r1", {"s1"}), Group("r2", {"s1"})}).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Offer({Group("r1", {"s1"}, 0)}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Run(OfferRows, {.after = 7, .groups = {Group("r1", {"s1"})}}).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(store_->status()->last_sequence, before);
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kPaused}).ok());
  EXPECT_EQ(Offer({Group("r1", {"s1"})}).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok());
  ASSERT_TRUE(Offer({Group("r1", {"s1"}), Group("r2", {"s2"})}).ok());
  EXPECT_EQ(store_->status()->offered.rows, 20);
}

TEST_F(OfferRulesTest, DecisionsContinueFromTheLastWholeStateAndTheRowsThatAreNotStored) {
  const auto offer = [&](const std::string& id, std::int64_t kept, bool complete) {
    OfferedGroup group = Group(id, {});
    group.kept = kept;
    group.complete = complete;
    const auto sequence = Offer({group});
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    return *sequence;
  };
  const auto records = [&] {
    std::vector<std::string> found;
    for (const StoredOffer& stored : store_->Run(ReadOffers, {})->records) found.push_back(stored.offered.record);
    return found;
  };
  EXPECT_THAT(records(), IsEmpty());
  offer("r1", 0, true);
  offer("r2", 3, false);
  const std::int64_t third = offer("r3", 0, true);
  offer("r4", 0, false);
  EXPECT_THAT(records(), ElementsAre("record of r2", "record of r3", "record of r4"));
  ASSERT_TRUE(store_->Run(StoreOfferedRows, {.folder = "pool/appended-00001", .rows = 3, .through = third}).ok());
  Reopen();
  EXPECT_THAT(records(), ElementsAre("record of r3", "record of r4"));
  EXPECT_EQ(store_->status()->offered.waiting, 0);
  EXPECT_THAT(*store_->Run(AppendedSoFar, {}), SizeIs(1));
  EXPECT_EQ(store_->Run(StoreOfferedRows, {.rows = 1, .through = third}).status().code(), absl::StatusCode::kAborted);
}

TEST_F(OfferRulesTest, TheStateIsDerivedFromTheLogAlone) {
  Batch({"a", "b"});
  OfferOrFail("r1", {"s1", "s2"});
  ASSERT_TRUE(store_->WriteCheckpoint().ok());
  LabelNext("ada", "cat");
  LabelNext("ada", "cat");
  EXPECT_TRUE(Advance().closed);
  OfferOrFail("r2", {"s3"});
  Batch({"c"});
  const OfferedFigures figures = store_->status()->offered;
  store_.reset();
  const auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_TRUE((*reader)->CatchUp(kEndOfLog).ok());
  EXPECT_EQ((*reader)->state().offered().figures(), figures);
  EXPECT_THAT((*reader)->state().offered().taken(), ElementsAre("s1", "s2", "s3"));
  const auto report = CheckCampaign(Folder());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, IsEmpty());
}

}  // namespace
}  // namespace fulcrum::storage
