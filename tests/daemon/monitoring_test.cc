// What an operator sees of a running daemon: metrics per call, the log of campaigns, of administrators and of refused
// calls, health while it starts, and its limits.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "pipeline/operation/watchdog.h"
#include "pipeline/server/access_control.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"
#include "tests/support/http_get.h"

namespace fulcrum::testing {
namespace {

using pipeline::Role;
using pipeline::TokenStore;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MonitoringTest : public DaemonTest {
 protected:
  std::vector<std::string> Arguments() const {
    return {"--data", folder_.File("data"), "--pools", folder_.File("pools")};
  }

  /// Makes a token before the daemon starts.
  std::string Token(const std::string& name, Role role) const {
    std::filesystem::create_directories(folder_.File("data"));
    const auto store = TokenStore::Open(folder_.File("data"));
    EXPECT_TRUE(store.ok()) << store.status();
    return *(*store)->Create(name, role);
  }
};

TEST_F(MonitoringTest, CountsCallsByMethodAndCode) {
  const std::string admin_token = Token("root", Role::kAdmin);
  DaemonProcess daemon(Arguments());
  daemon.Spawn();
  DaemonClient admin(daemon.port(), admin_token), stranger(daemon.port(), "fulcrum_forged");
  ASSERT_TRUE(admin.Create(CloudSpec("clouds", 2)).ok());
  EXPECT_EQ(stranger.Start("clouds").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(stranger.Start("clouds").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  const std::string metrics = HttpGet(daemon.metrics_port(), "/metrics");
  // The order of labels is that of the library.
  EXPECT_THAT(
      metrics,
      AllOf(HasSubstr(R"(fulcrum_calls_total{code="OK",method="/fulcrum.v1.CampaignService/CreateCampaign"} 1)"),
            HasSubstr(R"(fulcrum_calls_total{code="UNAUTHENTICATED",)"
                      R"(method="/fulcrum.v1.CampaignService/StartCampaign"} 2)"),
            HasSubstr(R"(fulcrum_call_seconds_count{method="/fulcrum.v1.CampaignService/StartCampaign"} 2)"),
            HasSubstr(R"(fulcrum_retries_total{campaign="clouds"} 0)"),
            HasSubstr(R"(fulcrum_store_bytes{campaign="clouds"} )")));
}

TEST_F(MonitoringTest, LogsCampaignsAdministratorsAndRefusedCalls) {
  const std::string admin_token = Token("root", Role::kAdmin), reader_token = Token("rita", Role::kReader);
  DaemonProcess daemon(Arguments());
  daemon.Spawn();
  DaemonClient admin(daemon.port(), admin_token), reader(daemon.port(), reader_token);

  EXPECT_EQ(reader.Stop("clouds").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  const nlohmann::json refused = daemon.NextLogLine("call refused");
  EXPECT_EQ(refused.value("by", ""), "rita");
  EXPECT_THAT(refused.value("from", ""), HasSubstr("127.0.0.1"));
  EXPECT_THAT(refused.value("reason", ""), HasSubstr("reader"));

  ASSERT_TRUE(admin.Create(CloudSpec("clouds", 2)).ok());
  EXPECT_EQ(daemon.NextLogLine("campaign created").value("campaign", ""), "clouds");
  ASSERT_TRUE(admin.Start("clouds").ok());
  const nlohmann::json started = daemon.NextLogLine("campaign started");
  EXPECT_EQ(started.value("campaign", ""), "clouds");
  EXPECT_EQ(started.value("by", ""), "root");
  const nlohmann::json call = daemon.NextLogLine("admin call");
  EXPECT_EQ(call.value("call", ""), "StartCampaign");
  EXPECT_EQ(call.value("campaign", ""), "clouds");
  EXPECT_EQ(call.value("by", ""), "root");
  EXPECT_THAT(call.value("from", ""), HasSubstr("127.0.0.1"));
  EXPECT_EQ(call.value("result", ""), "OK");
  EXPECT_EQ(daemon.NextLogLine("batch committed").value("round", 0), 1);

  ASSERT_TRUE(admin.Stop("clouds").ok());
  EXPECT_EQ(daemon.NextLogLine("campaign done").value("reason", ""), "it was stopped");
  ASSERT_TRUE(admin.Delete("clouds").ok());
  EXPECT_EQ(daemon.NextLogLine("campaign deleted").value("by", ""), "root");
}

TEST_F(MonitoringTest, IsAliveAndNotReadyBeforeTheCampaignsAreOpen) {
  const pipeline::DaemonMetrics metrics;
  const auto watch = pipeline::DaemonWatch::Start({.address = "127.0.0.1:0"}, folder_.path(), metrics);
  ASSERT_TRUE(watch.ok()) << watch.status();
  EXPECT_THAT(HttpGet((*watch)->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet((*watch)->port(), "/readyz"), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("starting")));
  EXPECT_THAT(HttpGet((*watch)->port(), "/metrics"), HasSubstr("process_resident_memory_bytes"));
}

TEST_F(MonitoringTest, ACampaignThatLostItsLastLabelsIsReportedUntilTheNoteIsDeleted) {
  std::vector<std::string> arguments = Arguments();
  arguments.emplace_back("--no-tokens");
  DaemonProcess daemon(arguments);
  daemon.Spawn();
  {
    DaemonClient client(daemon.port(), "");
    ASSERT_TRUE(client.Create(CloudSpec("clouds", 2)).ok());
    ASSERT_TRUE(client.Create(CloudSpec("sound", 2)).ok());
    for (const char* name : {"clouds", "sound"}) {
      ASSERT_TRUE(client.Start(name).ok());
      WorkUntilOver(client, name, "ada", 4);
    }
  }
  daemon.Kill();
  const std::string folder = folder_.File("data/campaigns/clouds");
  const std::string log = folder + "/campaign.db-wal";
  std::filesystem::resize_file(log, std::filesystem::file_size(log) * 3 / 4);
  for (int opened = 0; opened < 2; ++opened) {
    daemon.Launch();
    const nlohmann::json line = daemon.NextLogLine("campaign lost events");
    EXPECT_EQ(line.value("campaign", ""), "clouds");
    EXPECT_EQ(line.value("level", ""), "error");
    EXPECT_THAT(line.value("reason", ""), AllOf(HasSubstr("labels may be missing"), HasSubstr("events are missing")));
    daemon.AwaitListening();
    EXPECT_THAT(HttpGet(daemon.metrics_port(), "/metrics"),
                AllOf(HasSubstr("fulcrum_campaign_lost_events{campaign=\"clouds\"} 1\n"),
                      HasSubstr("fulcrum_campaign_lost_events{campaign=\"sound\"} 0\n")));
    EXPECT_THAT(HttpGet(daemon.metrics_port(), "/readyz"),
                AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("campaign 'clouds' lost events")));
    const v1::Campaign campaign = DaemonClient(daemon.port(), "").Get("clouds");
    ASSERT_EQ(campaign.conditions_size(), 1);
    EXPECT_THAT(campaign.conditions(0).reason(), HasSubstr("events are missing"));
    EXPECT_FALSE(campaign.conditions(0).has_retry_at());
    daemon.Kill();
  }
  daemon.Spawn();
  std::filesystem::remove(folder + "/campaign.lost-events");
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/metrics"),
              HasSubstr("fulcrum_campaign_lost_events{campaign=\"clouds\"} 0\n"));
  EXPECT_EQ(DaemonClient(daemon.port(), "").Get("clouds").conditions_size(), 0);
}

TEST_F(MonitoringTest, ACampaignAboveTheLimitIsRefusedWithTheWayOut) {
  pipeline::DaemonOptions options = Options();
  options.most_campaigns = 1;
  StartDaemon(options);
  DaemonClient client = Client("");
  ASSERT_TRUE(client.Create(CloudSpec("first", 2)).ok());
  const grpc::Status second = client.Create(CloudSpec("second", 2));
  EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(second.error_message(), HasSubstr("limits.campaigns"));
}

}  // namespace
}  // namespace fulcrum::testing
