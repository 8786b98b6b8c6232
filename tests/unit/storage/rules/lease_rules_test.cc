// The promises about leases: one a slot, epochs that grow, expiry on the server, attempts, request ids.
#include "storage/rules/lease_rules.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/unit/storage/store_fixture.h"

namespace fulcrum::storage {
namespace {

using std::chrono::minutes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LeaseRulesTest : public StoreTest {
 protected:
  void SetUp() override { Create(); }
};

TEST_F(LeaseRulesTest, BestItemsAreLeasedFirstAndEachSlotOnce) {
  Batch({"b", "a", "c"});
  const auto first = Acquire("ada", 2);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->leases.size(), 2u);
  EXPECT_EQ(first->leases[0].item, "b");
  EXPECT_EQ(first->leases[1].item, "a");
  const auto second = Acquire("ben", 10);
  ASSERT_EQ(second->leases.size(), 1u);
  EXPECT_EQ(second->leases[0].item, "c");
  EXPECT_THAT(Acquire("cem")->leases, IsEmpty());
  EXPECT_EQ(store_->status()->live_leases, 3u);
}

TEST_F(LeaseRulesTest, AnExpiredLeaseIsOfferedAgainWithALargerEpoch) {
  Batch({"a"});
  const GrantedLease first = Lease("ada");
  clock_.Advance(minutes(10) - std::chrono::microseconds(1));
  EXPECT_THAT(Acquire("ben")->leases, IsEmpty());
  clock_.Advance(std::chrono::microseconds(1));
  const GrantedLease second = Lease("ben");
  EXPECT_EQ(second.item, "a");
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_GT(second.epoch, first.epoch);
}

TEST_F(LeaseRulesTest, StaleRenewAndReleaseAreAborted) {
  Batch({"a"});
  const GrantedLease first = Lease("ada");
  clock_.Advance(minutes(10));
  const GrantedLease second = Lease("ben");
  EXPECT_EQ(store_->Run(RenewLease, Request("ada", first)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(store_->Run(ReleaseLease, Request("ada", first)).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(store_->Run(RenewLease, Request("ben", second)).ok());
}

TEST_F(LeaseRulesTest, RenewingGivesAFullLeaseTimeAndReleasingOpensTheSlotAtOnce) {
  Batch({"a"});
  const GrantedLease lease = Lease("ada");
  clock_.Advance(minutes(9));
  const auto renewed = store_->Run(RenewLease, Request("ada", lease));
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->expires_at, clock_.Now() + minutes(10));
  clock_.Advance(minutes(9));
  EXPECT_THAT(Acquire("ben")->leases, IsEmpty());
  ASSERT_TRUE(store_->Run(ReleaseLease, Request("ada", lease)).ok());
  EXPECT_EQ(Lease("ben").epoch, lease.epoch + 1);
}

TEST_F(LeaseRulesTest, AnothersLeaseAndOneThatNeverWasAreRefused) {
  Batch({"a"});
  const GrantedLease lease = Lease("ada");
  EXPECT_EQ(store_->Run(RenewLease, Request("eve", lease)).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(store_->Run(ReleaseLease, Request("eve", lease)).status().code(), absl::StatusCode::kPermissionDenied);
  GrantedLease forged = lease;
  forged.lease += 1000;
  EXPECT_EQ(store_->Run(RenewLease, Request("ada", forged)).status().code(), absl::StatusCode::kInvalidArgument);
  forged = lease;
  forged.epoch += 1;
  EXPECT_EQ(store_->Run(RenewLease, Request("ada", forged)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(LeaseRulesTest, AfterFiveAttemptsTheItemIsSetAsideVisibly) {
  Batch({"a", "b"});
  for (int attempt = 0; attempt < 5; ++attempt) {
    EXPECT_EQ(Lease("ada").item, "a") << attempt;
    clock_.Advance(minutes(10));
  }
  EXPECT_EQ(Lease("ada").item, "b");
  const Item item = ItemNow("a");
  EXPECT_EQ(item.status, ItemStatus::kSetAside);
  EXPECT_THAT(item.reason, HasSubstr("5 attempts"));
  ASSERT_TRUE(store_->Run(ReturnItem, {.item = "a", .by = "admin"}).ok());
  EXPECT_EQ(Lease("ben").item, "a");
}

TEST_F(LeaseRulesTest, ARepeatedAcquireReturnsTheSameLeases) {
  Batch({"a", "b", "c"});
  const AcquireRequest request{.annotator = "ada", .request_id = "once", .most = 2};
  const auto first = store_->Run(AcquireTasks, request);
  const auto again = store_->Run(AcquireTasks, request);
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_FALSE(first->repeated);
  EXPECT_TRUE(again->repeated);
  EXPECT_EQ(first->leases, again->leases);
  EXPECT_EQ(store_->status()->live_leases, 2u);
  Reopen();
  const auto later = store_->Run(AcquireTasks, request);
  ASSERT_TRUE(later.ok()) << later.status();
  EXPECT_EQ(first->leases, later->leases);
  const auto other = store_->Run(AcquireTasks, {.annotator = "ada", .request_id = "once", .most = 3});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kAlreadyExists);
  // Ids belong to an annotator: another's are no obstacle.
  EXPECT_TRUE(store_->Run(AcquireTasks, {.annotator = "ben", .request_id = "once", .most = 1}).ok());
}

TEST_F(LeaseRulesTest, ARestartNeverShortensALease) {
  Batch({"a"});
  Lease("ada");
  clock_.Advance(minutes(6));
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok());
  store_.reset();
  clock_.Advance(std::chrono::hours(5));  // down, or a clock that was set
  Reopen();
  clock_.Advance(minutes(4) - std::chrono::microseconds(1));
  EXPECT_THAT(Acquire("ben")->leases, IsEmpty());
  clock_.Advance(std::chrono::microseconds(1));
  EXPECT_EQ(Lease("ben").item, "a");
}

TEST_F(LeaseRulesTest, AClockThatWasSetBackNeitherShortensNorProlongsALease) {
  Batch({"a"});
  Lease("ada");
  store_.reset();
  clock_.Advance(-std::chrono::hours(3));
  Reopen();
  clock_.Advance(minutes(10) - std::chrono::microseconds(1));
  EXPECT_THAT(Acquire("ben")->leases, IsEmpty());
  clock_.Advance(std::chrono::microseconds(1));
  EXPECT_EQ(Lease("ben").item, "a");
}

TEST_F(LeaseRulesTest, LeasesOfAClockThatWasYearsAheadEndInTheirOwnTime) {
  Batch({"a"});
  const Time right = clock_.Now();
  store_.reset();
  clock_.Advance(std::chrono::hours(24 * 3650));
  Reopen();
  Lease("ada");
  clock_.Advance(minutes(4));
  ASSERT_TRUE(store_->Run(ChangeLife, {.life = Life::kRunning}).ok());
  store_.reset();
  clock_.Set(right);
  Reopen();
  EXPECT_EQ(store_->status()->last_time, right);
  clock_.Advance(minutes(6) - std::chrono::microseconds(1));
  EXPECT_THAT(Acquire("ben")->leases, IsEmpty());
  clock_.Advance(std::chrono::microseconds(1));
  const GrantedLease lease = Lease("ben");
  EXPECT_EQ(lease.expires_at, clock_.Now() + minutes(10));
  // The log replays to the same state.
  Reopen();
  EXPECT_EQ(store_->status()->live_leases, 1u);
}

TEST_F(LeaseRulesTest, LeasesEndWithoutAnyOtherRequest) {
  Batch({"a"});
  Lease("ada");
  ASSERT_TRUE(store_->status()->next_expiry.has_value());
  clock_.Advance(*store_->status()->next_expiry - clock_.Now());
  ASSERT_TRUE(store_->ExpireLeases().ok());
  EXPECT_EQ(store_->status()->live_leases, 0u);
  EXPECT_EQ(store_->status()->totals.expired_leases, 1);
}

TEST_F(LeaseRulesTest, BudgetsLimitWhatIsLeased) {
  CampaignSettings settings = Settings();
  settings.label_budget = 2;
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  Batch({"a", "b", "c"});
  const auto all = Acquire("ada", 3);
  ASSERT_EQ(all->leases.size(), 2u);
  EXPECT_THAT(Acquire("ben", 3)->leases, IsEmpty());
  ASSERT_TRUE(Submit("ada", all->leases[0], "x").ok());
  ASSERT_TRUE(Submit("ada", all->leases[1], "x").ok());
  EXPECT_EQ(Acquire("ben").status().code(), absl::StatusCode::kResourceExhausted);
  settings.label_budget = 3;
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  EXPECT_EQ(Lease("ben").item, "c");
}

TEST_F(LeaseRulesTest, TheCostBudgetCountsWhatIsLeasedToo) {
  CampaignSettings settings = Settings();
  settings.cost_budget = 5;
  ASSERT_TRUE(store_->Run(ChangeSettings, {.settings = settings}).ok());
  Batch({"a", "b", "c"}, 2);
  const auto two = Acquire("ada", 3);
  ASSERT_EQ(two->leases.size(), 2u);
  EXPECT_THAT(Acquire("ben", 3)->leases, IsEmpty());
  ASSERT_TRUE(Submit("ada", two->leases[0], "x").ok());
  EXPECT_THAT(Acquire("ben", 3)->leases, IsEmpty()) << "what is paid for counts as what is leased";
  ASSERT_TRUE(store_->Run(ReleaseLease, Request("ada", two->leases[1])).ok());
  EXPECT_EQ(Acquire("ben", 3)->leases.size(), 1u);
  clock_.Advance(std::chrono::minutes(11));
  Reopen();
  EXPECT_EQ(Acquire("cyd", 3)->leases.size(), 0u) << "time does not pass while the store is closed";
  clock_.Advance(std::chrono::minutes(11));
  EXPECT_EQ(Acquire("cyd", 3)->leases.size(), 1u);
}

TEST_F(LeaseRulesTest, ARequestNeedsAnAnnotatorAnIdAndASensibleNumber) {
  for (const AcquireRequest& request : {AcquireRequest{.annotator = "", .request_id = "r", .most = 1},
                                        {.annotator = "ada", .request_id = "", .most = 1},
                                        {.annotator = "ada", .request_id = "r", .most = 0},
                                        {.annotator = "a\nb", .request_id = "r", .most = 1},
                                        {.annotator = "\xff", .request_id = "r", .most = 1},
                                        {.annotator = std::string(5000, 'x'), .request_id = "r", .most = 1}}) {
    EXPECT_EQ(store_->Run(AcquireTasks, request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace fulcrum::storage
