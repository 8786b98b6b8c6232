// A campaign waits for what may pass, a full disk or a full queue, however long it takes, and then goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign.h"
#include "storage/rules/lease_rules.h"
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

  void CreateCampaign(const storage::CommitQueueOptions& queue = {}) {
    v1::CampaignSpec spec;
    spec.set_name("clouds");
    spec.mutable_pool()->add_sources("rows.csv");
    spec.add_classes("neg");
    spec.add_classes("pos");
    spec.mutable_selection()->set_batch(4);
    auto campaign = Campaign::Create(
        folder_.File("campaigns/clouds"), spec,
        {.pools = {.root = folder_.path()}, .retry_time = std::chrono::milliseconds(1), .queue = queue}, {});
    ASSERT_TRUE(campaign.ok()) << campaign.status();
    campaign_ = *std::move(campaign);
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

struct Gate {
  std::promise<void>* begun = nullptr;
  std::shared_future<void> end = {};
};

absl::StatusOr<int> Hold(storage::Ledger&, const Gate& gate) {
  if (gate.begun != nullptr) gate.begun->set_value();
  gate.end.wait();
  return 0;
}

TEST_F(CampaignRetryTest, AFullCommitQueueIsACondition) {
  CreateCampaign({.capacity = 2, .most_operations = 1});
  ASSERT_TRUE(campaign_->Start({.by = "root"}).ok());
  Await([](const v1::Campaign& state) { return state.round() == 1; });
  // The writing thread is held, and the queue behind it is full. If the campaign itself has a request in the queue by
  // then, it is not refused but waits; then once more.
  for (bool retries = false; !retries;) {
    std::promise<void> begun, resume;
    const std::shared_future<void> end = resume.get_future().share();
    campaign_->store().Start(Hold, {&begun, end}, [](const absl::StatusOr<int>&) {});
    begun.get_future().wait();
    absl::Status refused;
    while (refused.ok()) {
      campaign_->store().Start(Hold, {nullptr, end}, [&](const absl::StatusOr<int>& answer) {
        if (!answer.ok()) refused = answer.status();
      });
    }
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    retries = RetriesWithin(std::chrono::seconds(3));
    if (retries) {
      const v1::Campaign waiting = AwaitRetries(8);
      EXPECT_NE(waiting.state(), v1::CAMPAIGN_STATE_FAILED) << waiting.state_reason();
      EXPECT_GT(waiting.conditions_size(), 0);
    }
    resume.set_value();
  }
  const v1::Campaign after = Await([](const v1::Campaign& state) { return state.conditions_size() == 0; });
  EXPECT_EQ(after.state(), v1::CAMPAIGN_STATE_WAITING);
  EXPECT_EQ(after.open_tasks(), 4);
}

}  // namespace
}  // namespace fulcrum::pipeline
