// A campaign waits for what may pass, a full disk or a full queue, however long it takes, and then goes on.
#include <gmock/gmock.h>
#include <google/protobuf/field_mask.pb.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/campaign/campaign.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/round_rules.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::HasSubstr;

class CampaignRetryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string rows = "x,y\n";
    for (int row = 0; row < 40; ++row) absl::StrAppend(&rows, row % 7, ",", row % 5, "\n");
    folder_.Write("rows.csv", rows);
    std::filesystem::create_directories(folder_.File("campaigns"));
  }

  CampaignServices Services(MemoryBudgetShare* memory = nullptr, const storage::CommitQueueOptions& queue = {}) const {
    return {.pools = {.root = folder_.path()},
            .memory = memory,
            .retry_time = std::chrono::milliseconds(1),
            .queue = queue};
  }
  void CreateCampaign(const storage::CommitQueueOptions& queue = {}, MemoryBudgetShare* memory = nullptr) {
    v1::CampaignSpec spec;
    spec.set_name("clouds");
    spec.mutable_pool()->add_sources("rows.csv");
    spec.add_classes("neg");
    spec.add_classes("pos");
    spec.mutable_selection()->set_batch(4);
    auto campaign = Campaign::Create(folder_.File("campaigns/clouds"), spec, Services(memory, queue), {});
    ASSERT_TRUE(campaign.ok()) << campaign.status();
    campaign_ = *std::move(campaign);
    Watch();
  }
  void Watch() {
    campaign_->events().Watch(0, [this](const v1::CampaignEvent& event) {
      if (!event.has_campaign()) return;
      const std::scoped_lock lock(mutex_);
      last_ = event.campaign();
      changed_.notify_all();
    });
  }

  /// Returns the first published state that is as wanted.
  template <typename Wanted>
  v1::Campaign Await(const Wanted& wanted) {
    std::unique_lock lock(mutex_);
    // So that a state that never comes fails the test.
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(2), [&] { return wanted(last_); })) << last_.DebugString();
    return last_;
  }
  v1::Campaign AwaitRetries(std::int64_t attempts) {
    return Await([&](const v1::Campaign& state) {
      return state.state() == v1::CAMPAIGN_STATE_FAILED ||
             (state.conditions_size() > 0 && state.conditions(0).attempts() >= attempts);
    });
  }

  bool RetriesWithin(std::chrono::seconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return last_.conditions_size() > 0; });
  }

  struct Gate {
    std::promise<void>* begun = nullptr;
    std::shared_future<void> end = {};
  };
  static absl::StatusOr<int> Hold(storage::Ledger&, const Gate& gate) {
    if (gate.begun != nullptr) gate.begun->set_value();
    gate.end.wait();
    return 0;
  }

  /// Calls `act` when the campaign has been refused by the queue of its store, which stays full until it returns. If
  /// the campaign has a request in the queue by then, it is not refused but waits; then once more.
  template <typename Act>
  void WithAFullQueue(const Act& act) {
    for (bool retries = false; !retries;) {
      std::promise<void> begun, resume;
      const std::shared_future<void> end = resume.get_future().share();
      // What the turn before left in the queue may be there still.
      const auto not_taken = std::make_shared<std::atomic<bool>>(true);
      while (*not_taken) {
        *not_taken = false;
        campaign_->store().Start(Hold, {&begun, end}, [not_taken](const absl::StatusOr<int>& answer) {
          if (!answer.ok()) *not_taken = true;
        });
      }
      begun.get_future().wait();
      absl::Status refused;
      while (refused.ok()) {
        campaign_->store().Start(Hold, {nullptr, end}, [&](const absl::StatusOr<int>& answer) {
          if (!answer.ok()) refused = answer.status();
        });
      }
      EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
      retries = RetriesWithin(std::chrono::seconds(3));
      if (retries) act();
      resume.set_value();
    }
  }

  const testing::TemporaryDirectory folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  v1::Campaign last_;
  std::shared_ptr<Campaign> campaign_;
};

TEST_F(CampaignRetryTest, AFullDiskDuringARoundIsACondition) {
  CreateCampaign();
  // The scores of the first round are written to a disk without room.
  const std::string scores = folder_.File("campaigns/clouds/rounds/000001-scores.parquet");
  std::filesystem::create_symlink("/dev/full", scores);
  ASSERT_TRUE(campaign_->Start({.by = "root"}).ok());
  // More often than a round may fail for lack of memory.
  const v1::Campaign waiting = AwaitRetries(8);
  ASSERT_NE(waiting.state(), v1::CAMPAIGN_STATE_FAILED) << waiting.state_reason();
  EXPECT_THAT(waiting.conditions(0).reason(), HasSubstr("No space left on device"));
  EXPECT_THAT(waiting.state_reason(), HasSubstr("retrying"));
  const v1::Campaign full = campaign_->DescribeFully();
  ASSERT_GT(full.waiting_for_size(), 0);
  EXPECT_EQ(full.waiting_for(0).kind(), v1::WaitingFor::KIND_RETRY);
  EXPECT_EQ(full.round(), 0);
  EXPECT_GE(campaign_->retries(), 8);

  std::filesystem::remove(scores);
  const v1::Campaign after =
      Await([](const v1::Campaign& state) { return state.round() == 1 && state.conditions_size() == 0; });
  EXPECT_EQ(after.state(), v1::CAMPAIGN_STATE_WAITING);
  EXPECT_EQ(after.open_tasks(), 4);
}

TEST_F(CampaignRetryTest, AFullCommitQueueIsACondition) {
  CreateCampaign({.capacity = 2, .most_operations = 1});
  ASSERT_TRUE(campaign_->Start({.by = "root"}).ok());
  Await([](const v1::Campaign& state) { return state.round() == 1; });
  WithAFullQueue([this] {
    const v1::Campaign waiting = AwaitRetries(8);
    EXPECT_NE(waiting.state(), v1::CAMPAIGN_STATE_FAILED) << waiting.state_reason();
    EXPECT_GT(waiting.conditions_size(), 0);
  });
  const v1::Campaign after = Await([](const v1::Campaign& state) { return state.conditions_size() == 0; });
  EXPECT_EQ(after.state(), v1::CAMPAIGN_STATE_WAITING);
  EXPECT_EQ(after.open_tasks(), 4);
}

TEST_F(CampaignRetryTest, APausedCampaignRetriesLessAndLessOften) {
  CreateCampaign({.capacity = 2, .most_operations = 1});
  ASSERT_TRUE(campaign_->Start({.by = "root"}).ok());
  Await([](const v1::Campaign& state) { return state.round() == 1; });
  // Its thread looks for leases that have expired.
  ASSERT_TRUE(campaign_->store().Run(storage::AcquireTasks, {.annotator = "ada", .request_id = "a", .most = 1}).ok());
  ASSERT_TRUE(campaign_->Pause({.by = "root"}).ok());
  WithAFullQueue([this] {
    const v1::Campaign waiting = AwaitRetries(8);
    EXPECT_EQ(waiting.state(), v1::CAMPAIGN_STATE_PAUSED);
    EXPECT_GT(waiting.conditions_size(), 0);
  });
  EXPECT_EQ(Await([](const v1::Campaign& state) { return state.conditions_size() == 0; }).state(),
            v1::CAMPAIGN_STATE_PAUSED);
}

TEST_F(CampaignRetryTest, ACampaignMovedToLessMemoryIsOpenedAndRunsWhenItsRoundsFit) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  MemoryBudgetShare large(4096 * kMebibyte), small(256 * kMebibyte);
  CreateCampaign({}, &large);
  EXPECT_EQ(campaign_->Describe().spec().selection().memory_mib(), 1024);
  campaign_.reset();
  auto opened = Campaign::Open(folder_.File("campaigns/clouds"), Services(&small));
  ASSERT_TRUE(opened.ok()) << opened.status();
  campaign_ = *std::move(opened);
  Watch();
  ASSERT_TRUE(campaign_->Start({.by = "root"}).ok());
  const v1::Campaign waiting = AwaitRetries(3);
  ASSERT_NE(waiting.state(), v1::CAMPAIGN_STATE_FAILED) << waiting.state_reason();
  EXPECT_THAT(waiting.conditions(0).reason(), HasSubstr("selection.memory_mib"));

  v1::CampaignSpec spec;
  spec.mutable_selection()->set_memory_mib(300);
  google::protobuf::FieldMask mask;
  mask.add_paths("selection.memory_mib");
  EXPECT_EQ(campaign_->Update(spec, mask, {.by = "root"}).code(), absl::StatusCode::kResourceExhausted);
  spec.mutable_selection()->set_memory_mib(64);
  ASSERT_TRUE(campaign_->Update(spec, mask, {.by = "root"}).ok());
  Await([](const v1::Campaign& state) { return state.round() == 1 && state.conditions_size() == 0; });
  EXPECT_EQ(campaign_->Describe().spec().selection().memory_mib(), 64);
  campaign_.reset();
}

TEST_F(CampaignRetryTest, ARoundThatWaitsForMemorySaysForWhomAndEndsWhenItIsPaused) {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  MemoryBudgetShare memory(256 * kMebibyte);
  auto other = memory.Admit({.campaign = "other", .round_bytes = 224 * kMebibyte});
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(memory.BeginRound(*other, {}).ok());
  CreateCampaign({}, &memory);
  ASSERT_TRUE(campaign_->Start({.by = "root"}).ok());
  const auto waits = [&] {
    const v1::Campaign campaign = campaign_->DescribeFully();
    return campaign.waiting_for_size() > 0 && campaign.waiting_for(0).kind() == v1::WaitingFor::KIND_MEMORY;
  };
  while (!waits()) std::this_thread::yield();
  EXPECT_THAT(campaign_->DescribeFully().waiting_for(0).text(),
              HasSubstr("memory for round 1, which campaign 'other' uses"));
  // It leaves the line, so that those behind it are not held up.
  ASSERT_TRUE(campaign_->Pause({.by = "root"}).ok());
  EXPECT_TRUE(campaign_->WaitForRound(std::chrono::steady_clock::now() + std::chrono::minutes(2)));
  EXPECT_FALSE(waits());
  ASSERT_TRUE(campaign_->Resume({.by = "root"}).ok());
  while (!waits()) std::this_thread::yield();
  memory.EndRound(*other);
  memory.GiveBack(*other);
  Await([](const v1::Campaign& state) { return state.round() == 1; });
  campaign_.reset();
}

TEST_F(CampaignRetryTest, ALabelThatIsChangedAfterTheEndIsTrainedOnWhenTheDiskHasRoom) {
  CreateCampaign();
  ASSERT_TRUE(campaign_->Start({.by = "root"}).ok());
  // Labels of two rounds, so that there is a model.
  std::string item;
  for (std::int64_t round = 1; round <= 2; ++round) {
    Await([&](const v1::Campaign& state) { return state.round() == round; });
    const auto tasks = campaign_->store().Run(storage::AcquireTasks,
                                              {.annotator = "ada", .request_id = absl::StrCat("a", round), .most = 4});
    ASSERT_TRUE(tasks.ok()) << tasks.status();
    for (const storage::GrantedLease& lease : tasks->leases) {
      item = lease.item;
      const auto label = campaign_->store().Run(storage::SubmitLabel, {.annotator = "ada",
                                                                       .request_id = absl::StrCat("s", lease.lease),
                                                                       .lease = lease.lease,
                                                                       .epoch = lease.epoch,
                                                                       .item = lease.item,
                                                                       .value = lease.lease % 2 == 0 ? "neg" : "pos"});
      ASSERT_TRUE(label.ok()) << label.status();
    }
  }
  Await([](const v1::Campaign& state) { return state.round() == 3; });
  ASSERT_TRUE(campaign_->Stop({.by = "root"}).ok());
  const auto models = [&] { return campaign_->store().Run(storage::ListModels, {})->size(); };
  const std::size_t before = models();
  ASSERT_GT(before, 0u);
  // Writing the next model fails because the disk is full, at whatever sequence of the log.
  std::vector<std::string> files;
  for (std::int64_t i = 1; i <= 20; ++i) {
    const std::string name =
        absl::StrFormat("campaigns/clouds/models/%06d-%012d.model", 4, campaign_->store().status()->last_sequence + i);
    files.push_back(folder_.File(name));
    std::filesystem::create_symlink("/dev/full", files.back());
  }
  const auto changed = campaign_->store().Run(storage::ChangeLabel,
                                              {.annotator = "ada", .request_id = "c1", .item = item, .value = "neg"});
  const auto other = campaign_->store().Run(storage::ChangeLabel,
                                            {.annotator = "ada", .request_id = "c2", .item = item, .value = "pos"});
  ASSERT_TRUE(changed.ok() && other.ok()) << changed.status() << other.status();
  const v1::Campaign waiting = AwaitRetries(3);
  EXPECT_EQ(waiting.state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_EQ(models(), before);
  for (const std::string& file : files) std::filesystem::remove(file);
  const v1::Campaign after = Await([](const v1::Campaign& state) { return state.conditions_size() == 0; });
  EXPECT_EQ(after.state(), v1::CAMPAIGN_STATE_DONE);
  while (models() == before) std::this_thread::yield();
}

}  // namespace
}  // namespace fulcrum::pipeline
