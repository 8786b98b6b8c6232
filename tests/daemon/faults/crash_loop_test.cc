// Work outside of rounds that kills the process is not begun again at every start: the creation of a campaign, the
// opening of one, and rows that are appended. The markers are written as a process leaves them that died at work.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "pipeline/campaign/stored_text.h"
#include "stages/core/files.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"
#include "tests/support/http_get.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;

class CrashLoopTest : public DaemonTest {
 protected:
  std::string FileOf(const std::string& campaign, const std::string& file) const {
    return folder_.File(absl::StrCat("data/campaigns/", campaign, "/", file));
  }

  /// A creation that the process did not finish, and in which it died `deaths` times before the last one.
  std::string LeaveCreation(const std::string& campaign, int deaths) const {
    v1::Operation operation;
    operation.set_name(absl::StrCat("create-", campaign, "-1"));
    operation.set_kind(v1::OPERATION_KIND_CREATE_CAMPAIGN);
    operation.set_campaign(campaign);
    operation.set_state(v1::OPERATION_STATE_RUNNING);
    operation.mutable_created_at()->set_seconds(1);
    v1::CreateCampaignRequest request;
    *request.mutable_spec() = CloudSpec(campaign, 2);
    const std::string file = "data/operations/" + operation.name();
    folder_.Write(file + ".json",
                  absl::StrCat(pipeline::StoredText(operation), "\n", pipeline::StoredText(request), "\n"));
    folder_.Write(file + ".marker", absl::StrCat(operation.name(), " ", deaths, " running\n"));
    return operation.name();
  }

  v1::CampaignSpec WatchingSpec(const std::string& name) const {
    v1::CampaignSpec spec = CloudSpec(name, 2);
    spec.mutable_pool()->set_sources(0, "named.csv");
    spec.mutable_pool()->set_id_column("id");
    spec.mutable_pool()->set_watch("incoming");
    return spec;
  }

  /// As somebody does who moves a file into a watched folder.
  std::string MoveIn(const std::string& name, std::size_t rows) const {
    const std::string written = folder_.Write("pools/incoming/." + name, NamedCloudsText(rows));
    std::filesystem::rename(written, folder_.File("pools/incoming/" + name));
    return folder_.File("pools/incoming/" + name);
  }

  std::vector<std::string> Arguments() const {
    return {"--data", folder_.File("data"), "--pools", folder_.File("pools"), "--no-tokens"};
  }
};

TEST_F(CrashLoopTest, ACreationThatKilledTheProcessTwiceFailsAndOneThatKilledItOnceIsTriedAgain) {
  std::filesystem::create_directories(folder_.File("data/operations"));
  const std::string twice = LeaveCreation("twice", 1), once = LeaveCreation("once", 0);
  StartDaemon();
  DaemonClient client = Client();
  const v1::Operation failed = client.AwaitOperation(twice), succeeded = client.AwaitOperation(once);
  EXPECT_EQ(failed.state(), v1::OPERATION_STATE_FAILED);
  EXPECT_EQ(failed.error().code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(failed.error().message(), HasSubstr("died 2 times in a row"));
  EXPECT_EQ(succeeded.state(), v1::OPERATION_STATE_SUCCEEDED) << succeeded.error().message();
  EXPECT_EQ(client.Get("once").pool_rows(), 200);
  for (const std::string& name : {once, twice}) {
    EXPECT_FALSE(std::filesystem::exists(folder_.File(absl::StrCat("data/operations/", name, ".marker")))) << name;
  }
  EXPECT_TRUE(client.Create(CloudSpec("twice", 2)).ok()) << "a client that asks for it again gets it";
}

TEST_F(CrashLoopTest, ACampaignThatKilledTheProcessWhenItWasOpenedIsBrokenUntilItsMarkerIsDeleted) {
  StartDaemon();
  for (const char* name : {"deadly", "unlucky"}) ASSERT_TRUE(Client().Create(CloudSpec(name, 2)).ok());
  StopDaemon();
  std::ofstream(FileOf("deadly", "open.marker")) << "opening 2 running\n";
  std::ofstream(FileOf("unlucky", "open.marker")) << "opening 1 running\n";
  pipeline::DaemonOptions options = Options();
  options.reopen_time = std::chrono::milliseconds(20);
  options.watch.address = "127.0.0.1:0";
  StartDaemon(options);
  DaemonClient client = Client();
  EXPECT_EQ(client.Get("unlucky").state(), v1::CAMPAIGN_STATE_CREATED);
  EXPECT_FALSE(std::filesystem::exists(FileOf("unlucky", "open.marker")));
  EXPECT_EQ(client.Get("deadly").state(), v1::CAMPAIGN_STATE_BROKEN);
  EXPECT_THAT(client.Get("deadly").state_reason(), HasSubstr("died 3 times in a row while it opened the campaign"));
  EXPECT_THAT(HttpGet(daemon_->watch_port(), "/readyz"), HasSubstr("campaign 'deadly' cannot be opened"));
  std::filesystem::remove(FileOf("deadly", "open.marker"));
  while (client.Get("deadly").state() == v1::CAMPAIGN_STATE_BROKEN) {
  }
  ASSERT_TRUE(client.Start("deadly").ok());
  EXPECT_EQ(WorkUntilOver(client, "deadly", "ada").size(), 12u);
}

TEST_F(CrashLoopTest, AFileThatKilledTheProcessTwiceIsLeftAloneAndTheOthersAreAppended) {
  std::filesystem::create_directories(folder_.File("pools/incoming"));
  DaemonProcess daemon(Arguments());
  daemon.Spawn();
  ASSERT_TRUE(DaemonClient(daemon.port(), "").Create(WatchingSpec("clouds")).ok());
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.Wait(), 0);

  const std::string deadly = MoveIn("a.csv", 210);
  MoveIn("b.csv", 205);
  const std::string checksum = *ChecksumOfFile(deadly);
  const std::string marker =
      FileOf("clouds", absl::StrCat("append-", absl::StrReplaceAll(checksum, {{":", "-"}}), ".marker"));
  std::ofstream(marker) << checksum << " 1 running\n";
  for (int start = 0; start < 2; ++start) {
    daemon.Spawn();
    const nlohmann::json left = daemon.NextLogLine("file cannot be appended; it is left alone until it changes");
    EXPECT_EQ(left.value("file", ""), "a.csv");
    EXPECT_THAT(left.value("reason", ""), HasSubstr("died 2 times in a row"));
    if (start == 0) {
      EXPECT_EQ(daemon.NextLogLine("file appended").value("file", ""), "b.csv");
    }
    EXPECT_EQ(DaemonClient(daemon.port(), "").Get("clouds").pool_rows(), 205);
    daemon.Kill();
  }
  std::filesystem::remove(marker);
  daemon.Spawn();
  EXPECT_EQ(daemon.NextLogLine("file appended").value("file", ""), "a.csv");
  EXPECT_FALSE(std::filesystem::exists(marker));
}

TEST_F(CrashLoopTest, AQuarantinedCampaignDoesNotTakeFilesUntilItIsStarted) {
  std::filesystem::create_directories(folder_.File("pools/incoming"));
  DaemonProcess daemon(Arguments());
  daemon.Spawn();
  {
    DaemonClient client(daemon.port(), "");
    for (const char* name : {"quarantined", "sound"}) {
      ASSERT_TRUE(client.Create(WatchingSpec(name)).ok());
      ASSERT_TRUE(client.Start(name).ok());
    }
  }
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.Wait(), 0);
  std::ofstream(FileOf("quarantined", "round.marker")) << "1 1 running\n";
  MoveIn("a.csv", 210);
  daemon.Spawn();
  DaemonClient client(daemon.port(), "");
  ASSERT_EQ(client.Get("quarantined").state(), v1::CAMPAIGN_STATE_QUARANTINED);
  // When the other campaign has taken a second file, several looks after the start, this one would have taken the
  // first.
  for (const char* name : {"a.csv", "b.csv"}) {
    const nlohmann::json appended = daemon.NextLogLine("file appended");
    EXPECT_EQ(appended.value("campaign", ""), "sound");
    EXPECT_EQ(appended.value("file", ""), name);
    if (name == std::string("a.csv")) MoveIn("b.csv", 220);
  }
  EXPECT_EQ(client.Get("quarantined").pool_rows(), 200);
  ASSERT_TRUE(client.Start("quarantined").ok());
  EXPECT_EQ(daemon.NextLogLine("file appended").value("campaign", ""), "quarantined");
}

}  // namespace
}  // namespace fulcrum::testing
