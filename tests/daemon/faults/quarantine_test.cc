// Rounds that kill the process or never end: the other campaigns go on, no label is lost, and the process can be
// stopped.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"
#include "tests/support/http_get.h"
#include "tests/support/process.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// Returns when a round of the campaign is running.
void WaitUntilRunning(DaemonClient& client, const std::string& name) {
  v1::Campaign campaign;
  do campaign = client.Get(name);
  while (campaign.state() == v1::CAMPAIGN_STATE_WAITING);
  ASSERT_EQ(campaign.state(), v1::CAMPAIGN_STATE_RUNNING) << campaign.state_reason();
}

class QuarantineTest : public DaemonTest {
 protected:
  std::string FileOf(const std::string& campaign, const std::string& file) const {
    return folder_.File(absl::StrCat("data/campaigns/", campaign, "/", file));
  }
  /// Lets the first round of a campaign block when it reads this file, which no stop request interrupts.
  std::string BlockFirstRound(const std::string& campaign) const {
    const std::string path = FileOf(campaign, "rounds/000000-landmarks.csv");
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  std::string Config(const std::string& more) const {
    return folder_.Write("fulcrum.yaml", absl::StrCat("data: ", folder_.File("data"),
                                                      "\npools: ", folder_.File("pools"), "\ntokens: false\n", more));
  }
};

TEST_F(QuarantineTest, ARoundThatKillsTheProcessTwiceIsNotRunAgainUntilAnAdministratorStartsIt) {
  // A full decomposition of one kernel matrix over all of these rows takes long enough to be killed in it.
  folder_.Write("pools/many.csv", CloudsText(4000));
  DaemonProcess daemon({"--config", Config("")});
  daemon.Spawn();
  {
    DaemonClient client(daemon.port(), "");
    v1::CampaignSpec spec = CloudSpec("long", 2);
    spec.mutable_pool()->set_sources(0, "many.csv");
    spec.mutable_selection()->set_strategy("top-lev");  // scores the pool without labels
    spec.mutable_selection()->set_engine(v1::ENGINE_DENSE);
    ASSERT_TRUE(client.Create(spec).ok());
    ASSERT_TRUE(client.Create(CloudSpec("short", 2)).ok());
    ASSERT_TRUE(client.Start("long").ok());
    WaitUntilRunning(client, "long");
  }
  daemon.Kill();
  daemon.Spawn();
  {
    DaemonClient client(daemon.port(), "");
    WaitUntilRunning(client, "long");
    EXPECT_THAT(HttpGet(daemon.metrics_port(), "/metrics"),
                HasSubstr("fulcrum_campaign_quarantined{campaign=\"long\"} 0"));
  }
  daemon.Kill();
  daemon.Spawn();

  DaemonClient client(daemon.port(), "");
  const v1::Campaign campaign = client.Get("long");
  EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_QUARANTINED);
  EXPECT_THAT(campaign.state_reason(), HasSubstr("died 2 times in a row during round 1"));
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/metrics"),
              AllOf(HasSubstr("fulcrum_campaign_quarantined{campaign=\"long\"} 1"),
                    HasSubstr("fulcrum_campaigns{state=\"quarantined\"} 1")));
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/readyz"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("campaign 'long' is quarantined")));
  const std::string server = absl::StrCat("127.0.0.1:", daemon.port());
  EXPECT_THAT(RunProcess({FULCRUM_PROGRAM, "campaign", "list", "--server", server}).standard_output,
              AllOf(HasSubstr("long"), HasSubstr("quarantined")));
  // The others are run.
  ASSERT_TRUE(client.Start("short").ok());
  EXPECT_THAT(WorkUntilOver(client, "short", "ada"), SizeIs(12));

  // It stays quarantined however often the daemon is restarted.
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  daemon.Spawn();
  DaemonClient again(daemon.port(), "");
  EXPECT_EQ(again.Get("long").state(), v1::CAMPAIGN_STATE_QUARANTINED);
  EXPECT_EQ(RunProcess({FULCRUM_PROGRAM, "campaign", "start", "long", "--server", server}).exit_code, 0);
  WaitUntilRunning(again, "long");
}

TEST_F(QuarantineTest, LabelsOfAQuarantinedCampaignAreAcceptedAndExported) {
  StartDaemon();
  v1::Task task;
  {
    DaemonClient client = Client();
    ASSERT_TRUE(client.Create(CloudSpec("clouds", 4)).ok());
    ASSERT_TRUE(client.Start("clouds").ok());
    WorkUntilOver(client, "clouds", "ada", 2);
    task = client.AcquireOne("clouds", "ada");
  }
  StopDaemon();
  // As a process leaves it that died during round 2 for the second time.
  std::ofstream(FileOf("clouds", "round.marker")) << "2 1 running\n";
  StartDaemon();
  DaemonClient client = Client();
  EXPECT_EQ(client.Get("clouds").state(), v1::CAMPAIGN_STATE_QUARANTINED);
  EXPECT_EQ(client.SubmitOne("clouds", "ada", task, AnswerTo(task.item_id())), 0);
  EXPECT_THAT(client.Export("clouds"), SizeIs(3));
  v1::AcquireTasksRequest acquire = TasksWanted("clouds", "ada", 1);
  acquire.clear_wait();
  v1::AcquireTasksResponse none;
  ASSERT_TRUE(client.Acquire(acquire, &none).ok());
  EXPECT_EQ(none.tasks_size(), 0);
  EXPECT_FALSE(none.campaign_over());
  ASSERT_TRUE(client.Start("clouds").ok());
  EXPECT_THAT(WorkUntilOver(client, "clouds", "ada"), SizeIs(21));
  EXPECT_FALSE(std::filesystem::exists(FileOf("clouds", "round.marker")));
}

TEST_F(QuarantineTest, SigtermEndsTheProcessAlthoughARoundNeverEnds) {
  DaemonProcess daemon({"--config", Config("stop_seconds: 3\n")});
  daemon.Spawn();
  std::set<std::int64_t> acknowledged;
  std::string blocked;
  {
    DaemonClient client(daemon.port(), "");
    ASSERT_TRUE(client.Create(CloudSpec("stuck", 2)).ok());
    ASSERT_TRUE(client.Create(CloudSpec("clouds", 4)).ok());
    blocked = BlockFirstRound("stuck");
    ASSERT_TRUE(client.Start("stuck").ok());
    ASSERT_TRUE(client.Start("clouds").ok());
    WaitUntilRunning(client, "stuck");
    acknowledged = WorkUntilOver(client, "clouds", "ada", 7);
    // A campaign that was stopped cannot be deleted while its round still runs, and nobody waits for it for ever.
    ASSERT_TRUE(client.Stop("stuck").ok());
    EXPECT_EQ(client.Get("stuck").state(), v1::CAMPAIGN_STATE_DONE);
    EXPECT_EQ(client.Delete("stuck").error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.NextLogLine("exit forced: the round does not stop").value("campaign", ""), "stuck");
  EXPECT_EQ(daemon.Wait(), pipeline::Daemon::kForcedExit);

  std::filesystem::remove(blocked);
  daemon.Spawn();
  DaemonClient client(daemon.port(), "");
  std::set<std::int64_t> exported;
  for (const v1::ExportedLabel& label : client.Export("clouds")) exported.insert(label.sequence());
  EXPECT_EQ(exported, acknowledged);
  EXPECT_EQ(client.Get("stuck").state(), v1::CAMPAIGN_STATE_DONE);
  EXPECT_TRUE(client.Delete("stuck").ok());
}

TEST_F(QuarantineTest, SigtermEndsTheProcessAlthoughItsLogIsNotRead) {
  DaemonProcess daemon({"--config", Config("stop_seconds: 2\n")});
  daemon.Spawn();
  {
    DaemonClient client(daemon.port(), "");
    ASSERT_TRUE(client.Create(CloudSpec("stuck", 2)).ok());
    BlockFirstRound("stuck");
    ASSERT_TRUE(client.Start("stuck").ok());
    WaitUntilRunning(client, "stuck");
  }
  daemon.HoldLog();
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), pipeline::Daemon::kForcedExit);
  daemon.ReleaseLog();
}

TEST_F(QuarantineTest, SigtermEndsTheStartBeforeAllCampaignsAreOpen) {
  constexpr std::size_t kAtOnce = 8, kCampaigns = kAtOnce + 2;
  DaemonProcess daemon({"--config", Config("")});
  daemon.Spawn();
  // Opening a campaign waits for what this test writes to a pipe.
  std::map<std::string, std::string> pipes;
  {
    DaemonClient client(daemon.port(), "");
    for (std::size_t i = 0; i < kCampaigns; ++i) {
      const std::string name = absl::StrCat("slow-", i);
      ASSERT_TRUE(client.Create(CloudSpec(name, 2)).ok());
      pipes[name] = FileOf(name, "round.marker");
    }
  }
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.Wait(), 0);
  for (const auto& [name, pipe] : pipes) ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  daemon.Launch();
  std::map<std::string, int> opening;
  while (opening.size() < kAtOnce) {
    for (const auto& [name, pipe] : pipes) {
      if (opening.contains(name)) continue;
      const int writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      if (writer >= 0) opening[name] = writer;
    }
  }
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(daemon.NextLogLine("stopping before all campaigns are open").is_object());
  for (const auto& [name, writer] : opening) close(writer);
  // The other campaigns are not opened, which would wait without end.
  EXPECT_EQ(daemon.Wait(), 0);
  for (const auto& [name, pipe] : pipes) {
    std::filesystem::remove(pipe);
    EXPECT_FALSE(std::filesystem::exists(FileOf(name, "open.marker"))) << name;
  }
  daemon.Spawn();
  for (const auto& [name, pipe] : pipes) {
    EXPECT_EQ(DaemonClient(daemon.port(), "").Get(name).state(), v1::CAMPAIGN_STATE_CREATED) << name;
  }
}

TEST_F(QuarantineTest, ARoundThatEndsAfterItsCampaignWasStoppedChangesNothing) {
  for (const char* const content : {"class,row\n", "damaged\n"}) {
    StartDaemon();
    DaemonClient client = Client();
    ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
    const std::string blocked = BlockFirstRound("clouds");
    ASSERT_TRUE(client.Start("clouds").ok());
    WaitUntilRunning(client, "clouds");
    ASSERT_TRUE(client.Stop("clouds").ok());
    std::ofstream(blocked) << content;
    StopDaemon();
    StartDaemon();
    const v1::Campaign campaign = Client().Get("clouds");
    EXPECT_EQ(campaign.state(), v1::CAMPAIGN_STATE_DONE) << content;
    EXPECT_EQ(campaign.state_reason(), "it was stopped") << content;
    EXPECT_EQ(campaign.round(), 0) << content;
    ASSERT_TRUE(Client().Delete("clouds").ok());
    StopDaemon();
  }
}

}  // namespace
}  // namespace fulcrum::testing
