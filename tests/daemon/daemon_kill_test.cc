// The real program, killed again and again while workers label: nothing that was acknowledged is lost or counted
// twice, and the batches are those of an undisturbed run.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "tests/daemon/daemon_fixture.h"
#include "tests/daemon/daemon_process.h"

namespace fulcrum::testing {
namespace {

constexpr int kRounds = 8;
constexpr int kWorkers = 10;

class DaemonKillTest : public DaemonTest {
 protected:
  /// Waits until the daemon, there again, has taken labels, so that every kill hits it at work. False where the
  /// campaign is over.
  bool WaitForLabels(const std::string& campaign) const {
    DaemonClient client(process_.port(), "");
    grpc::ClientContext context;
    client.Prepare(context);
    v1::CampaignRequest request;
    request.set_name(campaign);
    const auto stream = client.campaigns().WatchCampaign(&context, request);
    v1::CampaignEvent event;
    while (stream->Read(&event)) {
      if (event.campaign().state() == v1::CAMPAIGN_STATE_DONE) return false;
      if (event.has_labels()) {
        context.TryCancel();
        return true;
      }
    }
    return stream->Finish().error_code() == grpc::StatusCode::UNAVAILABLE;
  }

  DaemonProcess process_{{"--data", folder_.File("data"), "--pools", folder_.File("pools"), "--no-tokens"},
                         folder_.File("serve.log")};
};

TEST_F(DaemonKillTest, AcknowledgedLabelsAndBatchesSurviveKills) {
  process_.Spawn();
  DaemonClient client(process_.port(), "");
  for (const char* name : {"calm", "stormy"}) {
    const grpc::Status created = client.Create(CloudSpec(name, kRounds));
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(name).ok());
  }
  WorkUntilOver(client, "calm", "ada");

  std::vector<std::future<std::set<std::int64_t>>> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.push_back(std::async(std::launch::async, [this, i] {
      DaemonClient own(process_.port(), "");
      return WorkUntilOver(own, "stormy", absl::StrCat("worker-", i));
    }));
  }
  int kills = 0;
  while (kills < FULCRUM_DAEMON_KILLS && WaitForLabels("stormy")) {
    process_.Kill();
    ++kills;
    process_.Spawn();
  }
  std::set<std::int64_t> acknowledged;
  std::size_t count = 0;
  for (auto& worker : workers) {
    const std::set<std::int64_t> own = worker.get();
    count += own.size();
    acknowledged.insert(own.begin(), own.end());
  }
  EXPECT_GE(kills, 3) << "the campaign ended before it was disturbed";
  EXPECT_EQ(acknowledged.size(), count) << "one label was acknowledged to two workers";

  std::set<std::int64_t> exported;
  std::set<std::string> items;
  for (const v1::ExportedLabel& label : client.Export("stormy")) {
    exported.insert(label.sequence());
    EXPECT_TRUE(items.insert(label.item_id()).second) << label.item_id() << " is labeled twice";
  }
  EXPECT_EQ(exported, acknowledged);
  EXPECT_EQ(client.Get("stormy").labels(), kRounds * 6);
  EXPECT_EQ(client.ExportedBatches("stormy"), client.ExportedBatches("calm"));
}

}  // namespace
}  // namespace fulcrum::testing
