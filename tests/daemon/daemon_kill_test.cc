// The real program, killed again and again while workers label: nothing that was acknowledged is lost or counted
// twice, and the batches are those of an undisturbed run.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "absl/strings/str_cat.h"
#include "tests/daemon/daemon_fixture.h"

namespace fulcrum::testing {
namespace {

constexpr int kRounds = 8;
constexpr int kWorkers = 10;

int FreePort() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  close(descriptor);
  return ntohs(address.sin_port);
}

class DaemonKillTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    port_ = FreePort();
  }
  void TearDown() override { Kill(); }

  void Spawn() {
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ > 0) return;
    const std::string address = absl::StrCat("127.0.0.1:", port_);
    if (std::freopen(folder_.File("serve.log").c_str(), "a", stderr) == nullptr) _exit(1);
    execl(FULCRUM_PROGRAM, "fulcrum", "serve", "--data", folder_.File("data").c_str(), "--pools",
          folder_.File("pools").c_str(), "--listen", address.c_str(), "--no-tokens", nullptr);
    _exit(127);
  }
  void Kill() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  /// Waits until the daemon, there again, has taken labels, so that every kill hits it at work. False where the
  /// campaign is over.
  bool WaitForLabels(const std::string& campaign) const {
    DaemonClient client(port_, "");
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

  int port_ = 0;
  pid_t process_ = -1;
};

TEST_F(DaemonKillTest, AcknowledgedLabelsAndBatchesSurviveKills) {
  Spawn();
  DaemonClient client(port_, "");
  for (const char* name : {"calm", "stormy"}) {
    const grpc::Status created = client.Create(CloudSpec(name, kRounds));
    ASSERT_TRUE(created.ok()) << created.error_message();
    ASSERT_TRUE(client.Start(name).ok());
  }
  WorkUntilOver(client, "calm", "ada");

  std::vector<std::future<std::set<std::int64_t>>> workers;
  for (int i = 0; i < kWorkers; ++i) {
    workers.push_back(std::async(std::launch::async, [this, i] {
      DaemonClient own(port_, "");
      return WorkUntilOver(own, "stormy", absl::StrCat("worker-", i));
    }));
  }
  int kills = 0;
  while (kills < FULCRUM_DAEMON_KILLS && WaitForLabels("stormy")) {
    Kill();
    ++kills;
    Spawn();
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
