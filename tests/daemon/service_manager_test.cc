// Notifications to the service manager.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/operation/metrics.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/server/grpc_server.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/daemon_process.h"
#include "tests/daemon/support/raw_connections.h"
#include "tests/support/http_get.h"
#include "tests/support/process.h"

namespace fulcrum::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The manager's end of NOTIFY_SOCKET. Reads continuously, because senders block on a full socket.
class NotifySocket {
 public:
  explicit NotifySocket(std::string path) : path_(std::move(path)), descriptor_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    reader_ = std::jthread([this] { Read(); });
  }
  ~NotifySocket() {
    shutdown(descriptor_, SHUT_RDWR);
    reader_.join();
    close(descriptor_);
  }
  const std::string& path() const { return path_; }

  /// Waits for the next message.
  std::string Receive() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return !messages_.empty(); });
    std::string message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  /// Waits for a message with this prefix and returns it; counts other messages with the prefix `counted`.
  std::string ReceiveUntil(const std::string& beginning, const std::string& counted = "-", int* count = nullptr) {
    while (true) {
      std::string message = Receive();
      if (message.starts_with(beginning)) return message;
      if (count != nullptr && message.starts_with(counted)) ++*count;
    }
  }

 private:
  void Read() {
    std::array<char, 4096> buffer{};
    for (ssize_t count; (count = recv(descriptor_, buffer.data(), buffer.size(), 0)) > 0;) {
      const std::scoped_lock lock(mutex_);
      messages_.emplace_back(buffer.data(), static_cast<std::size_t>(count));
      arrived_.notify_one();
    }
  }

  const std::string path_;
  const int descriptor_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::string> messages_;
  std::jthread reader_;
};

class ServiceManagerTest : public DaemonTest {
 protected:
  std::string Config(const std::string& more = "") const {
    return folder_.Write("fulcrum.yaml", absl::StrCat("data: ", folder_.File("data"),
                                                      "\npools: ", folder_.File("pools"), "\ntokens: false\n", more));
  }
};

TEST_F(ServiceManagerTest, HearsReadyAliveStatusAndStopping) {
  NotifySocket manager(folder_.File("notify"));
  DaemonProcess daemon({"--config", Config()}, {{"NOTIFY_SOCKET", manager.path()}, {"WATCHDOG_USEC", "300000"}});
  daemon.Spawn();
  // The first heartbeat may arrive before READY.
  manager.ReceiveUntil("READY=1");
  manager.ReceiveUntil("WATCHDOG=1");
  EXPECT_EQ(manager.ReceiveUntil("STATUS="), "STATUS=0 campaigns, 0 of them running; 0 leases, 0 labels");
  manager.ReceiveUntil("WATCHDOG=1");
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/readyz"), StartsWith("HTTP/1.1 200"));
  daemon.Signal(SIGTERM);
  EXPECT_THAT(manager.ReceiveUntil("STOPPING=1"), HasSubstr("EXTEND_TIMEOUT_USEC="));
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(ServiceManagerTest, SigtermEndsALongRoundWhereItIs) {
  // A full decomposition of the kernel matrix of all these rows takes far longer than any timeout.
  folder_.Write("pools/clouds.csv", CloudsText(4000));
  DaemonProcess daemon({"--config", Config()});
  daemon.Spawn();
  DaemonClient client(daemon.port(), "");
  v1::CampaignSpec spec = CloudSpec("long", 2);
  spec.mutable_selection()->set_strategy("top-lev");  // scores the pool without labels
  spec.mutable_selection()->set_engine(v1::ENGINE_DENSE);
  const grpc::Status created = client.Create(spec);
  ASSERT_TRUE(created.ok()) << created.error_message();
  grpc::ClientContext context;
  client.Prepare(context);
  v1::WatchCampaignRequest request;
  request.set_campaign("long");
  const auto stream = client.campaigns().WatchCampaign(&context, request);
  ASSERT_TRUE(client.Start("long").ok());
  v1::WatchCampaignResponse response;
  while (stream->Read(&response) && response.event().stage().stage() != v1::STAGE_SCORE) {
  }
  ASSERT_EQ(response.event().stage().stage(), v1::STAGE_SCORE);
  daemon.Signal(SIGTERM);
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE) << "a watcher is let go at once";
  EXPECT_EQ(daemon.NextLogLine("round stopped").value("reason", ""), "score: stopped on request");
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(ServiceManagerTest, ProbesAreAnsweredWhateverOthersDoOnTheirPort) {
  DaemonProcess daemon({"--config", Config()});
  daemon.Spawn();
  RawConnections half(daemon.metrics_port());
  for (int i = 0; i < 100; ++i) half.Open("GET /healthz HT");
  ASSERT_EQ(half.size(), 100u);
  for (const char* path : {"/healthz", "/readyz", "/metrics"}) {
    EXPECT_THAT(HttpGet(daemon.metrics_port(), path), StartsWith("HTTP/1.1 200")) << path;
  }
  // These were answered while the others were still being waited for: they are answered too, once they are complete.
  ASSERT_TRUE(half.Send(0, "TP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_THAT(half.ReadAll(0), StartsWith("HTTP/1.1 200"));
  // Nor can anybody keep a probe out by opening more connections than the server holds.
  RawConnections more(daemon.metrics_port());
  for (std::size_t i = 0; i < RawConnections::MostPossible(800); ++i) more.Open("GET");
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/"), AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("/readyz")));
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/healthz", "POST"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET")));
}

TEST_F(ServiceManagerTest, ProbesAreAnsweredAgainAfterTheSystemCouldNotWaitForConnections) {
  DaemonProcess daemon({"--config", Config()});
  daemon.Spawn();
  RawConnections half(daemon.metrics_port());
  for (int i = 0; i < 20; ++i) half.Open("GET /healthz HT");
  ASSERT_EQ(half.size(), 20u);
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/healthz"), StartsWith("HTTP/1.1 200"));
  // poll refuses to wait for more descriptors than a process may have.
  ASSERT_TRUE(daemon.LimitFiles(10));
  half.Send(0, "T");
  EXPECT_TRUE(daemon.NextLogLine("probes are delayed: waiting for connections failed").is_object());
  ASSERT_TRUE(daemon.LimitFiles(1000));
  EXPECT_THAT(HttpGet(daemon.metrics_port(), "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(ServiceManagerTest, AFloodOfScrapesDoesNotKeepOutTheReadinessProbe) {
  DaemonProcess daemon({"--config", Config()});
  daemon.Spawn();
  std::atomic<bool> flooding = true;
  std::vector<std::jthread> scrapers;
  for (int i = 0; i < 4; ++i) {
    scrapers.emplace_back([&] {
      while (flooding) {
        RawConnections many(daemon.metrics_port());
        for (int each = 0; each < 50; ++each) many.Open("GET /metrics HTTP/1.1\r\n\r\n");
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_THAT(HttpGet(daemon.metrics_port(), "/readyz"), StartsWith("HTTP/1.1 200"));
  }
  flooding = false;
}

TEST_F(ServiceManagerTest, ProbingItselfOverTlsLeavesNoTraceInTheLog) {
  const std::string key = folder_.File("server.key"), certificate = folder_.File("server.pem");
  const ProcessResult made =
      RunProcess({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                  "-nodes", "-days", "2", "-subj", "/CN=x", "-keyout", key, "-out", certificate});
  ASSERT_EQ(made.exit_code, 0) << made.standard_error;
  NotifySocket manager(folder_.File("notify"));
  // Also if it asks clients for a certificate, which a probe does not have.
  for (const std::string more : {"", ", client_ca: "}) {
    DaemonProcess daemon({"--config", Config(absl::StrCat("tls: {cert: ", certificate, ", key: ", key, more,
                                                          more.empty() ? "" : certificate, "}\n"))},
                         {{"NOTIFY_SOCKET", manager.path()}, {"WATCHDOG_USEC", "300000"}});
    daemon.Spawn();
    for (int beat = 0; beat < 5; ++beat) manager.ReceiveUntil("WATCHDOG=1");
    daemon.Signal(SIGTERM);
    // Fails on every line that is not the daemon's own, and finds no error.
    EXPECT_TRUE(daemon.NextLogLine("stopped").is_object());
    EXPECT_EQ(daemon.Wait(), 0);
  }
}

/// The components of a daemon without the daemon, so that one of them can be blocked.
class WatchdogTest : public ServiceManagerTest {
 protected:
  void SetUp() override {
    ServiceManagerTest::SetUp();
    auto registry = pipeline::CampaignRegistry::Open(
        {.data_folder = folder_.File("data"), .pools = {.root = folder_.File("pools")}});
    ASSERT_TRUE(registry.ok()) << registry.status();
    campaigns_ = *std::move(registry);
    auto server = pipeline::GrpcServer::Start({}, {{"fulcrum.v1.ServerService", service_}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    setenv("NOTIFY_SOCKET", manager_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("NOTIFY_SOCKET"); }

  std::unique_ptr<pipeline::DaemonWatch> Watch(const std::string& grpc_address) {
    auto watch = pipeline::DaemonWatch::Start({.address = "127.0.0.1:0", .heartbeat = std::chrono::milliseconds(200)},
                                              folder_.File("data"), metrics_);
    EXPECT_TRUE(watch.ok()) << watch.status();
    (*watch)->Attach({.grpc_address = grpc_address,
                      .campaigns = *campaigns_,
                      .server = *server_,
                      .queues = {.calls = [] { return std::size_t{0}; }, .workers = [] { return std::size_t{0}; }}});
    return *std::move(watch);
  }

  NotifySocket manager_{folder_.File("notify")};
  const pipeline::DaemonMetrics metrics_;
  const std::shared_ptr<pipeline::ServerService> service_ =
      std::make_shared<pipeline::ServerService>("test", std::vector<pipeline::LibraryVersion>());
  std::unique_ptr<pipeline::CampaignRegistry> campaigns_;
  std::unique_ptr<pipeline::GrpcServer> server_;
};

std::latch* g_release = nullptr;

struct Nothing {};

absl::StatusOr<Nothing> Hang(storage::Ledger& /*ledger*/, const Nothing& /*request*/) {
  g_release->wait();
  return Nothing{};
}

TEST_F(WatchdogTest, IsNotFedWhileAWriterHangs) {
  const auto campaign = campaigns_->Create(CloudSpec("clouds", 2));
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const auto watch = Watch("127.0.0.1:0");
  manager_.ReceiveUntil("WATCHDOG=1");
  EXPECT_THAT(HttpGet(watch->port(), "/healthz"), StartsWith("HTTP/1.1 200"));

  std::latch release(1);
  g_release = &release;
  (*campaign)->store().Start(Hang, {}, [](const absl::StatusOr<Nothing>&) {});
  const std::string hangs = "STATUS=stores: the writing thread of campaign 'clouds' hangs";
  manager_.ReceiveUntil(hangs);
  int fed = 0;
  for (int beat = 0; beat < 5; ++beat) manager_.ReceiveUntil(hangs, "WATCHDOG=1", &fed);
  EXPECT_EQ(fed, 0);
  EXPECT_THAT(HttpGet(watch->port(), "/healthz"), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("clouds")));
  EXPECT_THAT(HttpGet(watch->port(), "/readyz"), StartsWith("HTTP/1.1 503"));

  release.count_down();
  manager_.ReceiveUntil("WATCHDOG=1");
  EXPECT_THAT(HttpGet(watch->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
}

/// Completes connections in the kernel only, as the gRPC listener does after it has stopped accepting.
class DeafListener {
 public:
  DeafListener() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(descriptor_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(descriptor_, 8), 0);
    getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~DeafListener() { close(descriptor_); }
  int port() const { return port_; }

 private:
  const int descriptor_;
  int port_ = 0;
};

TEST_F(WatchdogTest, OnlyAListenerThatAnswersCounts) {
  const std::chrono::milliseconds patience{200};
  EXPECT_TRUE(pipeline::ProbeListener("127.0.0.1:0", server_->port(), std::chrono::seconds(20)).ok());
  EXPECT_TRUE(pipeline::ProbeListener("0.0.0.0:0", server_->port(), std::chrono::seconds(20)).ok());
  const DeafListener deaf;
  EXPECT_EQ(pipeline::ProbeListener("127.0.0.1:0", deaf.port(), patience).code(), absl::StatusCode::kUnavailable);
  const int gone = DeafListener().port();
  EXPECT_EQ(pipeline::ProbeListener("127.0.0.1:0", gone, patience).code(), absl::StatusCode::kUnavailable);
}

TEST_F(WatchdogTest, IsNotFedWhenTheServerDoesNotAnswer) {
  const auto watch = Watch("127.0.0.1:0");
  manager_.ReceiveUntil("WATCHDOG=1");
  ASSERT_TRUE(server_->Stop(std::chrono::milliseconds(0)).ok());
  const std::string deaf = "STATUS=listener: the listener on 127.0.0.1:0 does not answer";
  manager_.ReceiveUntil(deaf);
  int fed = 0;
  for (int beat = 0; beat < 3; ++beat) manager_.ReceiveUntil(deaf, "WATCHDOG=1", &fed);
  EXPECT_EQ(fed, 0);
}

}  // namespace
}  // namespace fulcrum::testing
