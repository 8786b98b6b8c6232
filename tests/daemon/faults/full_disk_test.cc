// A disk that is full while people label, and has space again: calls are refused with the reason, no campaign fails,
// and what was acknowledged is there once.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "tests/daemon/support/daemon_fixture.h"
#include "tests/support/fault_vfs.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMostWrites = 60;  ///< between the end of one fault and the next

/// Waits for tasks and answers them until the campaign is over, and repeats unchanged what found no room. Returns the
/// sequence numbers of the acknowledged labels.
std::set<std::int64_t> LabelUntilOver(DaemonClient client) {
  const auto no_room = [](int code) { return code == static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED); };
  std::set<std::int64_t> acknowledged;
  for (;;) {
    const v1::AcquireTasksRequest acquire = TasksWanted("clouds", "ada", 1);
    v1::AcquireTasksResponse tasks;
    grpc::Status status;
    while (no_room((status = client.Acquire(acquire, &tasks)).error_code())) {
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok() || tasks.campaign_over()) return acknowledged;
    if (tasks.tasks_size() == 0) continue;
    const v1::Task& task = tasks.tasks(0);
    const v1::SubmitLabelsRequest answer = AnswerOf("clouds", "ada", task, AnswerTo(task.item_id()));
    v1::SubmitLabelsResponse results;
    do {
      status = client.Submit(answer, &results);
    } while (no_room(status.error_code()) || (status.ok() && no_room(results.results(0).status().code())));
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok()) return acknowledged;
    EXPECT_EQ(results.results(0).status().code(), 0) << results.results(0).status().message();
    acknowledged.insert(results.results(0).sequence());
  }
}

class FullDiskDaemonTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
  void TearDown() override {
    vfs_.Clear();
    StopDaemon();  // its connections are those of the VFS
  }

  FaultVfs vfs_;
};

TEST_F(FullDiskDaemonTest, LabelsAreRefusedWhileItIsFullAndTheCampaignGoesOn) {
  DaemonClient client = Client();
  ASSERT_TRUE(client.Create(CloudSpec("clouds", 6)).ok());
  ASSERT_TRUE(client.Start("clouds").ok());
  std::set<std::int64_t> acknowledged = WorkUntilOver(client, "clouds", "ada", 2);
  const v1::Task task = client.AcquireOne("clouds", "ada");
  const v1::SubmitLabelsRequest answer = AnswerOf("clouds", "ada", task, AnswerTo(task.item_id()));
  v1::SubmitLabelsResponse results;

  vfs_.Arm(DiskFault::kDiskFull, 1);
  ASSERT_TRUE(client.Submit(answer, &results).ok());
  EXPECT_EQ(results.results(0).status().code(), static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_THAT(results.results(0).status().message(), HasSubstr("the disk is full"));
  const v1::Campaign full = client.Get("clouds");
  EXPECT_EQ(full.labels(), 2);
  EXPECT_EQ(full.state(), v1::CAMPAIGN_STATE_WAITING);
  vfs_.Clear();
  ASSERT_TRUE(client.Submit(answer, &results).ok());
  ASSERT_EQ(results.results(0).status().code(), 0);
  acknowledged.insert(results.results(0).sequence());

  // At any write: of leases, labels, models, batches and checkpoints.
  std::atomic<bool> over = false;
  std::jthread worker([&] {
    acknowledged.merge(LabelUntilOver(Client()));
    over = true;
  });
  int faults = 0;
  for (std::int64_t countdown = 1; !over; countdown = 1 + (countdown + 6) % kMostWrites) {
    vfs_.Arm(DiskFault::kDiskFull, countdown);
    while (!over && !vfs_.happened()) EXPECT_NE(client.Get("clouds").state(), v1::CAMPAIGN_STATE_FAILED);
    faults += vfs_.happened();
    EXPECT_NE(client.Get("clouds").state(), v1::CAMPAIGN_STATE_FAILED);
    vfs_.Clear();
  }
  worker.join();
  EXPECT_GT(faults, 5);
  const v1::Campaign done = client.Get("clouds");
  EXPECT_EQ(done.state(), v1::CAMPAIGN_STATE_DONE);
  std::map<std::string, int> times;
  std::set<std::int64_t> stored;
  for (const v1::ExportedLabel& label : client.Export("clouds")) {
    ++times[label.item_id()];
    stored.insert(label.sequence());
  }
  EXPECT_EQ(stored, acknowledged);
  EXPECT_EQ(times.size(), 36u);
  for (const auto& [item, count] : times) EXPECT_EQ(count, 1) << item;
}

}  // namespace
}  // namespace fulcrum::testing
