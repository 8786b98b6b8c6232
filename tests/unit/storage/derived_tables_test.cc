#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DerivedTablesTest : public StoreTest {
 protected:
  std::vector<std::string> Differences() {
    auto reader = CampaignReader::Open(Folder());
    EXPECT_TRUE(reader.ok()) << reader.status();
    auto checkpoint = Checkpoint::Open((*reader)->database());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_TRUE((*checkpoint)->Load().ok());
    // From the log alone.
    CampaignState state;
    EXPECT_TRUE((*reader)->VisitEvents(1, kEndOfLog, [&](const Event& event) { return state.Apply(event); }).ok());
    EXPECT_EQ((*checkpoint)->position().sequence, state.last_sequence());
    return FindDifferences(**checkpoint, state);
  }

  /// One request of any kind, sensible or not.
  void DoSomething(Random& random) {
    const std::string annotator = absl::StrCat("a", random.Below(4));
    const std::string value = random.Below(2) == 0 ? "cat" : "dog";
    const std::string item = absl::StrCat("i", random.Below(30));
    switch (random.Below(9)) {
      case 0:
      case 1:
        if (const auto answer = Acquire(annotator, 1 + static_cast<std::int64_t>(random.Below(3))); answer.ok()) {
          for (const GrantedLease& lease : answer->leases) leases_.push_back({annotator, lease});
        }
        return;
      case 2:
      case 3:
        if (!leases_.empty()) {
          const auto& [who, lease] = leases_[random.Below(leases_.size())];
          Submit(who, lease, value).IgnoreError();
        }
        return;
      case 4:
        if (!leases_.empty()) {
          const auto& [who, lease] = leases_[random.Below(leases_.size())];
          Skip(who, lease, static_cast<SkipReason>(random.Below(3))).IgnoreError();
        }
        return;
      case 5:
        store_->Run(ChangeLabel, {.annotator = annotator, .request_id = NewId(), .item = item, .value = value})
            .IgnoreError();
        store_->Run(WithdrawLabel, {.annotator = annotator, .request_id = NewId(), .item = item}).IgnoreError();
        return;
      case 6:
        clock_.Advance(std::chrono::minutes(random.Below(8)));
        return;
      case 7:
        store_->Run(ReturnItem, {.item = item}).IgnoreError();
        return;
      default:
        NextRound(random);
    }
  }

  void NextRound(Random& random) {
    const std::int64_t round = store_->status()->round;
    if (store_->status()->round_open) {
      store_->Run(AdvanceRound, {.round = round, .forced = random.Below(3) == 0 ? "enough" : ""}).IgnoreError();
    }
    CommitBatchRequest request{.round = round + 1};
    auto reader = CampaignReader::Open(Folder());
    ASSERT_TRUE(reader.ok() && (*reader)->CatchUp().ok());
    for (int i = 0; i < 30; ++i) {
      const std::string id = absl::StrCat("i", i);
      const Item* const item = (*reader)->state().items().Find(id);
      const bool in_pool = item == nullptr || item->status == ItemStatus::kInPool;
      if (in_pool && random.Below(3) == 0) request.items.push_back({id, 0.1});
    }
    store_->Run(CommitBatch, request).IgnoreError();
  }

  std::vector<std::pair<std::string, GrantedLease>> leases_;
};

/// Everything that a state answers.
struct Answers {
  explicit Answers(const CampaignState& state)
      : figures(state.Figures()), expiry(state.leases().NextExpiry()), leased_cost(state.leases().cost()) {
    state.items().Visit([&](const Item& item) { items.emplace(item.id, WithLeases(item, state.leases())); });
    state.items().VisitOpenSlots([&](const Item& item, const Slot& slot) {
      offered.push_back(absl::StrCat(item.id, " ", slot.number));
      return true;
    });
    state.rounds().Visit([&](const Round& round) { rounds.push_back(round); });
    state.requests().Visit([&](const KnownRequest& request) { requests[request.key] = request.sequence; });
  }
  bool operator==(const Answers&) const = default;

  std::map<std::string, std::string> figures;
  std::optional<Time> expiry;
  double leased_cost;
  std::map<std::string, StoredItem> items;
  std::vector<std::string> offered;
  std::vector<Round> rounds;
  std::map<RequestKey, std::int64_t> requests;
};

TEST_F(DerivedTablesTest, FollowTheLogWhateverHappens) {
  CampaignSettings settings = Settings();
  settings.overlap = 2;
  settings.most_votes = 3;
  settings.most_attempts = 2;
  settings.bad_item_reports = 2;
  Create(settings);
  Random random(7);
  for (int step = 1; step <= 1200; ++step) {
    DoSomething(random);
    if (step % 150 == 0) Reopen();
    if (step % 60 != 0) continue;
    ASSERT_TRUE(store_->WriteCheckpoint().ok());
    ASSERT_THAT(Differences(), IsEmpty()) << "after step " << step;
  }
  // Otherwise the test would have tried little.
  EXPECT_GT(store_->status()->totals.labels, 50);
  EXPECT_GT(store_->status()->totals.late_labels, 3);
  EXPECT_GT(store_->status()->totals.skips, 8);
  EXPECT_GT(store_->status()->totals.expired_leases, 20);
  EXPECT_GT(store_->status()->round, 5);
}

TEST_F(DerivedTablesTest, RollingBackRestoresTheState) {
  CampaignSettings settings = Settings();
  settings.overlap = 2;
  settings.most_attempts = 2;
  Create(settings);
  Random random(8);
  for (int step = 1; step <= 400; ++step) DoSomething(random);
  auto reader = CampaignReader::Open(Folder());
  std::vector<Event> events;
  ASSERT_TRUE((*reader)
                  ->VisitEvents(1, kEndOfLog,
                                [&](const Event& event) {
                                  events.push_back(event);
                                  return absl::OkStatus();
                                })
                  .ok());
  ASSERT_GT(events.size(), 300u);
  CampaignState state;
  for (std::size_t at = 0; at < events.size();) {
    const std::size_t end = std::min(events.size(), at + 1 + random.Below(12));
    const Answers before(state);
    state.Begin();
    for (std::size_t i = at; i < end; ++i) ASSERT_TRUE(state.Apply(events[i]).ok());
    state.RollBack();
    ASSERT_TRUE(Answers(state) == before) << "events " << at << " to " << end;
    state.Begin();
    for (std::size_t i = at; i < end; ++i) ASSERT_TRUE(state.Apply(events[i]).ok());
    state.Accept();
    at = end;
  }
  CampaignState expected;
  for (const Event& event : events) ASSERT_TRUE(expected.Apply(event).ok());
  EXPECT_TRUE(Answers(state) == Answers(expected));
}

TEST_F(DerivedTablesTest, ADifferenceIsNamed) {
  Create();
  Batch({"a"});
  store_.reset();
  EXPECT_THAT(Differences(), IsEmpty());
  auto database = SqliteDatabase::Open(CampaignFolder(Folder()).database());
  ASSERT_TRUE(database->Execute("UPDATE item SET value='forged'").ok());
  EXPECT_THAT(Differences(), Contains(HasSubstr("row of item 'a' in the derived tables is damaged")));
  ASSERT_TRUE(database->Execute("DELETE FROM item; UPDATE round SET labeled=7").ok());
  EXPECT_THAT(Differences(), Contains(HasSubstr("table item: lacks (a, offered")));
  EXPECT_THAT(Differences(), Contains(HasSubstr("table round: lacks (1, open")));
}

}  // namespace
}  // namespace fulcrum::storage
