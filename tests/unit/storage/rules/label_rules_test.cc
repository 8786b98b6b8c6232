// The promises about labels: late ones are kept, each request counts once, votes decide, skips have reasons.
#include "storage/rules/label_rules.h"

#include <gmock/gmock.h>

#include "storage/campaign_reader.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using std::chrono::minutes;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LabelRulesTest : public StoreTest {
 protected:
  void SetUp() override { Create(); }

  void CreateWithOverlap() {
    CampaignSettings settings = Settings();
    settings.overlap = 2;
    settings.most_votes = 3;
    ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  }
};

TEST_F(LabelRulesTest, ALabelDecidesItsItem) {
  Batch({"a"});
  LabelNext("ada", "cat");
  const Item item = ItemNow("a");
  EXPECT_EQ(item.status, ItemStatus::kLabeled);
  EXPECT_EQ(item.value, "cat");
  EXPECT_EQ(store_->status()->totals.labels, 1);
  EXPECT_EQ(store_->status()->round_settled, 1);
}

TEST_F(LabelRulesTest, ARepeatedSubmitTakesEffectOnceAndOtherContentIsRefused) {
  Batch({"a", "b"});
  const GrantedLease lease = Lease("ada");
  SubmitRequest request{.annotator = "ada",
                        .request_id = "once",
                        .lease = lease.lease,
                        .epoch = lease.epoch,
                        .item = lease.item,
                        .value = "cat"};
  const auto first = store_->Run(SubmitLabel, request);
  ASSERT_TRUE(first.ok()) << first.status();
  for (int i = 0; i < 2; ++i) {
    const auto again = store_->Run(SubmitLabel, request);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->repeated);
    EXPECT_EQ(again->sequence, first->sequence);
    EXPECT_EQ(again->late, first->late);
    Reopen();
  }
  request.value = "dog";
  EXPECT_EQ(store_->Run(SubmitLabel, request).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->status()->totals.labels, 1);
}

TEST_F(LabelRulesTest, ALateLabelIsKeptAndDoesNotDisturbWhoHasTheSlotNow) {
  Batch({"a"});
  const GrantedLease first = Lease("ada");
  clock_.Advance(minutes(10));
  const GrantedLease second = Lease("ben");
  const auto late = Submit("ada", first, "cat");
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_TRUE(late->late);
  EXPECT_EQ(ItemNow("a").value, "cat");
  EXPECT_TRUE(store_->Run(RenewLease, Request("ben", second)).ok());
  // What ben answers is paid for too; one against one is no decision, so somebody else is asked.
  ASSERT_TRUE(Submit("ben", second, "dog").ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered);
  LabelNext("cem", "dog");
  EXPECT_EQ(ItemNow("a").value, "dog");
  EXPECT_EQ(store_->status()->totals.labels, 3);
  EXPECT_EQ(store_->status()->totals.late_labels, 1);
}

TEST_F(LabelRulesTest, ALateLabelFillsTheSlotThatIsStillOpen) {
  Batch({"a"});
  const GrantedLease lease = Lease("ada");
  clock_.Advance(minutes(30));
  ASSERT_TRUE(store_->ExpireLeases().ok());
  ASSERT_TRUE(Submit("ada", lease, "cat").ok());
  EXPECT_THAT(Acquire("ben")->leases, IsEmpty());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kLabeled);
}

TEST_F(LabelRulesTest, NoAnnotatorAnswersAnItemTwice) {
  CreateWithOverlap();
  Batch({"a"});
  const GrantedLease lease = Lease("ada");
  EXPECT_THAT(Acquire("ada")->leases, IsEmpty());
  ASSERT_TRUE(Submit("ada", lease, "cat").ok());
  EXPECT_THAT(Acquire("ada")->leases, IsEmpty());
  EXPECT_EQ(Submit("ada", lease, "dog").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Lease("ben").item, "a");
}

TEST_F(LabelRulesTest, VotesDecideWithAMarginThenAnotherAnnotatorThenDisputed) {
  CreateWithOverlap();
  Batch({"agree", "third", "disputed"});
  for (const char* annotator : {"ada", "ben"}) LabelNext(annotator, "cat");
  EXPECT_EQ(ItemNow("agree").value, "cat");
  LabelNext("ada", "cat");
  LabelNext("ben", "dog");
  EXPECT_EQ(ItemNow("third").status, ItemStatus::kOffered);
  LabelNext("cem", "dog");
  EXPECT_EQ(ItemNow("third").value, "dog");
  LabelNext("ada", "cat");
  LabelNext("ben", "dog");
  LabelNext("cem", "cow");
  EXPECT_EQ(ItemNow("disputed").status, ItemStatus::kDisputed);
  EXPECT_THAT(Acquire("dan")->leases, IsEmpty());
  EXPECT_EQ(store_->status()->round_settled, 3);
  EXPECT_EQ(store_->status()->round_labeled, 2);
}

TEST_F(LabelRulesTest, AChangedLabelChangesTheDecisionAndAWithdrawnOneTakesItBack) {
  Batch({"a"});
  LabelNext("ada", "cat");
  ASSERT_TRUE(store_->Run(ChangeLabel, {.annotator = "ada", .request_id = "c1", .item = "a", .value = "dog"}).ok());
  EXPECT_EQ(ItemNow("a").value, "dog");
  ASSERT_TRUE(store_->Run(WithdrawLabel, {.annotator = "ada", .request_id = "w1", .item = "a"}).ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kOffered);
  EXPECT_EQ(store_->status()->round_labeled, 0);
  EXPECT_THAT(Acquire("ada")->leases, IsEmpty());
  LabelNext("ben", "cow");
  EXPECT_EQ(ItemNow("a").value, "cow");
  const ChangeRequest other{.annotator = "eve", .request_id = "c2", .item = "a", .value = "x"};
  EXPECT_EQ(store_->Run(ChangeLabel, other).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LabelRulesTest, LabelsAtASequenceStayWhatTheyWere) {
  Batch({"a", "b"});
  LabelNext("ada", "cat");
  const std::int64_t then = store_->status()->last_sequence;
  ASSERT_TRUE(store_->Run(ChangeLabel, {.annotator = "ada", .request_id = "c", .item = "a", .value = "dog"}).ok());
  LabelNext("ada", "cow");
  auto reader = CampaignReader::Open(Folder());
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto now = (*reader)->LabelsAt(store_->status()->last_sequence);
  ASSERT_TRUE(now.ok()) << now.status();
  ASSERT_EQ(now->size(), 2u);
  EXPECT_EQ(now->front().value, "dog");
  const auto before = (*reader)->LabelsAt(then);
  ASSERT_EQ(before->size(), 1u);
  EXPECT_EQ(before->front().value, "cat");
  EXPECT_EQ((*reader)->LabelsAt(then + 1000).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(LabelRulesTest, UnsureGoesToSomebodyElse) {
  Batch({"a"});
  ASSERT_TRUE(Skip("ada", Lease("ada"), SkipReason::kUnsure).ok());
  EXPECT_THAT(Acquire("ada")->leases, IsEmpty());
  EXPECT_EQ(Lease("ben").item, "a");
}

TEST_F(LabelRulesTest, NotNowIsOfferedAfterTheOthers) {
  Batch({"a", "b"});
  ASSERT_TRUE(Skip("ada", Lease("ada"), SkipReason::kNotNow).ok());
  EXPECT_EQ(Lease("ada").item, "b");
  EXPECT_EQ(Lease("ada").item, "a");
}

TEST_F(LabelRulesTest, ABadItemIsSetAside) {
  Batch({"a", "b"});
  ASSERT_TRUE(Skip("ada", Lease("ada"), SkipReason::kBadItem).ok());
  EXPECT_EQ(ItemNow("a").status, ItemStatus::kSetAside);
  EXPECT_EQ(ItemNow("a").reason, "bad item");
  EXPECT_EQ(store_->status()->round_settled, 1);
}

TEST_F(LabelRulesTest, ImportedLabelsDecideAndOverruleVotes) {
  Batch({"a"});
  LabelNext("ada", "cat");
  const ImportRequest request{.source = "gold.csv", .request_id = "i", .labels = {{"a", "dog"}, {"z", "cow"}}};
  ASSERT_TRUE(store_->Run(ImportLabels, request).ok());
  EXPECT_TRUE(store_->Run(ImportLabels, request)->repeated);
  EXPECT_EQ(ItemNow("a").value, "dog");
  EXPECT_EQ(ItemNow("z").value, "cow");
  EXPECT_EQ(store_->status()->totals.imported, 2);
  EXPECT_EQ(store_->status()->totals.labels, 1);
}

TEST_F(LabelRulesTest, ALabelForAnotherItemOrLeaseIsRefusedAndLeavesNoTrace) {
  Batch({"a", "b"});
  const GrantedLease lease = Lease("ada");
  const std::int64_t before = store_->status()->last_sequence;
  GrantedLease wrong = lease;
  wrong.item = "b";
  EXPECT_EQ(Submit("ada", wrong, "cat").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Submit("eve", lease, "cat").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Submit("ada", lease, "").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->status()->last_sequence, before);
}

TEST_F(LabelRulesTest, CostsAddUp) {
  Batch({"a", "b"}, 0.25);
  LabelNext("ada", "cat");
  const GrantedLease lease = Lease("ada");
  ASSERT_TRUE(store_
                  ->Run(SubmitLabel, {.annotator = "ada",
                                      .request_id = "dear",
                                      .lease = lease.lease,
                                      .epoch = lease.epoch,
                                      .item = "b",
                                      .value = "x",
                                      .cost = 2.0})
                  .ok());
  EXPECT_EQ(store_->status()->totals.cost, 2.25);
}

TEST(CheckText, TakesUtf8InItsShortestFormOnly) {
  for (const char* good : {"cat", "\xC3\xBC", "\xE2\x82\xAC", "\xEF\xBF\xBD", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(CheckText("label", good).ok()) << good;
  }
  // Overlong forms, surrogates, beyond Unicode, cut short.
  for (const char* bad : {"\xC0\xAF", "\xE0\x80\xAF", "\xE0\x9F\xBF", "\xF0\x80\x80\xAF", "\xF0\x8F\xBF\xBF",
                          "\xED\xA0\x80", "\xED\xBF\xBF", "\xF4\x90\x80\x80", "\xE2\x82", "\xFF"}) {
    EXPECT_EQ(CheckText("label", bad).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace fulcrum::storage
