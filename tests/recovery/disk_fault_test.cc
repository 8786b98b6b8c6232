// Disk faults: an error makes the store unusable and loses nothing that was acknowledged; a full disk is temporary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "storage/campaign_store.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/round_rules.h"
#include "tests/support/fault_vfs.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::testing {
namespace {

using storage::CampaignStore;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DiskFaultTest : public ::testing::TestWithParam<DiskFault> {
 protected:
  void SetUp() override {
    auto store = CampaignStore::Create(Folder(), {}, Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::string Folder() const { return directory_.File("campaign"); }

  storage::StoreOptions Options() {
    storage::StoreOptions options;
    options.on_fatal = [this](const absl::Status&) { ++fatal_; };
    // No idle work, so that the faults hit the operations of the test.
    options.queue.idle_time = std::chrono::hours(1);
    return options;
  }

  absl::StatusOr<std::int64_t> Write(int number) {
    const bool running = store_->status()->life == storage::Life::kRunning;
    return store_->Run(storage::ChangeLife, {.life = running ? storage::Life::kPaused : storage::Life::kRunning,
                                             .reason = absl::StrCat("life-", number)});
  }

  void Reopen() {
    store_.reset();
    vfs_.Clear();
    auto store = CampaignStore::Open(Folder(), Options());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  /// Returns the life-cycle states in the log, in order.
  std::vector<std::string> Lives() {
    auto database = storage::SqliteDatabase::Open(Folder() + "/campaign.db", {.read_only = true});
    EXPECT_TRUE(database.ok()) << database.status();
    auto select = database->Prepare("SELECT reason FROM event WHERE kind=3 ORDER BY sequence");
    std::vector<std::string> lives;
    for (auto more = select->Step(); more.ok() && *more; more = select->Step())
      lives.emplace_back(select->ColumnText(0));
    return lives;
  }

  const TemporaryDirectory directory_;
  FaultVfs vfs_;
  std::atomic<int> fatal_ = 0;
  std::unique_ptr<CampaignStore> store_;
};

TEST_P(DiskFaultTest, AnErrorEndsTheStoreAndLosesNothingThatWasAnswered) {
  std::vector<std::string> answered;
  int number = 0;
  for (std::int64_t countdown = 1; countdown <= 12; ++countdown) {
    vfs_.Arm(GetParam(), countdown);
    absl::Status end;
    while (end.ok()) {
      end = Write(++number).status();
      if (end.ok()) answered.push_back(absl::StrCat("life-", number));
      ASSERT_LT(number, 10'000) << "the fault never happened";
    }
    EXPECT_TRUE(vfs_.happened());
    EXPECT_EQ(end.code(), absl::StatusCode::kInternal) << end;
    EXPECT_THAT(std::string(end.message()), HasSubstr("unclear what is on disk"));
    vfs_.Clear();
    // The disk works again, but the store must stay unusable.
    EXPECT_FALSE(Write(0).ok());
    EXPECT_FALSE(store_->health().ok());
    EXPECT_EQ(fatal_.load(), countdown);
    Reopen();
    // Unacknowledged writes may be present or not; acknowledged ones must be present exactly once.
    const std::vector<std::string> lives = Lives();
    for (const std::string& life : answered) {
      EXPECT_EQ(std::count(lives.begin(), lives.end(), life), 1) << life << ", countdown " << countdown;
    }
    EXPECT_THAT(storage::CheckCampaign(Folder())->problems, IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, DiskFaultTest, ::testing::Values(DiskFault::kWriteError, DiskFault::kSyncError),
                         [](const auto& fault) {
                           return fault.param == DiskFault::kWriteError ? std::string("Write") : std::string("Sync");
                         });

class FullDiskTest : public DiskFaultTest {};

TEST_F(FullDiskTest, AFullDiskFailsWhatItConcernsAndPasses) {
  std::vector<std::string> answered;
  for (int number = 1; number <= 40; ++number) {
    if (number % 4 == 0) vfs_.Arm(DiskFault::kDiskFull, 1 + number % 3);
    const absl::Status status = Write(number).status();
    if (status.ok()) answered.push_back(absl::StrCat("life-", number));
    if (vfs_.happened()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("disk is full"));
    }
    vfs_.Clear();
  }
  EXPECT_GT(answered.size(), 25u);
  EXPECT_LT(answered.size(), 40u);
  EXPECT_TRUE(store_->health().ok());
  EXPECT_EQ(fatal_.load(), 0);
  EXPECT_EQ(Lives(), answered);
  EXPECT_EQ(store_->status()->life_reason, answered.back());
  Reopen();
  EXPECT_EQ(store_->status()->life_reason, answered.back());
}

TEST_F(FullDiskTest, TablesThatFoundNoRoomAreWrittenLater) {
  ASSERT_TRUE(store_->Run(storage::CommitBatch, {.round = 1, .items = {{"a", 0}, {"b", 0}}}).ok());
  vfs_.Arm(DiskFault::kDiskFull, 1);
  EXPECT_EQ(store_->WriteCheckpoint().code(), absl::StatusCode::kResourceExhausted);
  vfs_.Clear();
  EXPECT_TRUE(store_->health().ok());
  EXPECT_TRUE(store_->WriteCheckpoint().ok());
  const auto report = storage::CheckCampaign(Folder());
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_EQ(report->tables_through, report->events);
}

}  // namespace
}  // namespace fulcrum::testing
