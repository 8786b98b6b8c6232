// Clients of the web port that send slowly or do not read: each is ended after a time, the memory for them is limited,
// and others are answered meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "absl/strings/str_cat.h"
#include "pipeline/web/web_server.h"
#include "tests/daemon/support/daemon_fixture.h"
#include "tests/daemon/support/raw_connections.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
// More than the system takes off a server for a client that does not read.
constexpr std::size_t kLargeAnswer = 32 * kMebibyte;
constexpr std::size_t kMostParts = 32;

std::string Get(const std::string& path) {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

/// The whole answer.
std::string Ask(int port, const std::string& path) {
  RawConnections connection(port);
  connection.Open(Get(path));
  return connection.size() == 1 ? connection.ReadAll(0) : "";
}

/// Parts without an end, as fast as the client takes them.
class EndlessStream {
 public:
  void Begin(const std::shared_ptr<pipeline::WebExchange>& exchange) {
    exchange->BeginStream({.type = "text/plain"});
    exchange->OnGone([this] { gone_.set_value(); });
    exchange->OnSent([this, exchange] {
      ++parts_;
      exchange->SendPart(std::string(kMebibyte, 'x'));
    });
  }
  void AwaitEnd() { gone_.get_future().wait(); }
  std::size_t parts() const { return parts_; }

 private:
  std::atomic<std::size_t> parts_ = 0;
  std::promise<void> gone_;
};

/// A web server with short times.
class SlowWebClientTest : public ::testing::Test {
 protected:
  SlowWebClientTest() {
    pipeline::WebServerOptions options;
    options.address = "127.0.0.1:0";
    options.max_unsent_bytes = 2 * kLargeAnswer;
    options.transfer_time = std::chrono::seconds(1);
    server_ = *pipeline::WebServer::Start(options, [this](const pipeline::WebRequest& request, const auto& exchange) {
      if (request.path == "/endless") return stream_.Begin(exchange);
      exchange->Reply({.body = request.path == "/large" ? std::string(kLargeAnswer, ' ') : "{}"});
    });
  }

  void ExpectOthersAreAnswered() const { EXPECT_THAT(Ask(server_->port(), "/"), StartsWith("HTTP/1.1 200")); }
  /// Waits until the first bytes of an answer are there.
  static void AwaitAnswer(const RawConnections& connections, std::size_t index) {
    pollfd event{.fd = connections.descriptor(index), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&event, 1, -1), 1);
  }
  /// Whether the other side has reset the connection.
  static bool IsReset(const RawConnections& connections, std::size_t index) {
    pollfd event{.fd = connections.descriptor(index), .events = 0, .revents = 0};
    return poll(&event, 1, 0) == 1;
  }

  EndlessStream stream_;
  std::unique_ptr<pipeline::WebServer> server_;
};

TEST_F(SlowWebClientTest, ABodyThatComesByteByByteEndsAfterATime) {
  RawConnections slow(server_->port());
  slow.Open(absl::StrCat("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", 5 * kMebibyte, "\r\n\r\n"));
  slow.Open("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  // It counts from the beginning of the body, not from the last byte.
  for (bool open = true; open;) {
    const bool whole = slow.Send(0, "x"), chunked = slow.Send(1, "1\r\nx\r\n");
    open = whole || chunked;
    ExpectOthersAreAnswered();
  }
}

TEST_F(SlowWebClientTest, AnAnswerThatIsNotReadEndsAfterATime) {
  RawConnections slow(server_->port());
  slow.Open(Get("/large"));
  AwaitAnswer(slow, 0);
  // The server does not read this, so that it resets the connection when it closes it.
  slow.Send(0, "more");
  while (!IsReset(slow, 0)) ExpectOthersAreAnswered();
}

TEST_F(SlowWebClientTest, AStreamThatIsNotReadWaitsAndEndsAfterATime) {
  RawConnections slow(server_->port());
  slow.Open(Get("/endless"));
  AwaitAnswer(slow, 0);
  stream_.AwaitEnd();
  EXPECT_LT(stream_.parts(), kMostParts) << "the server does not wait for the client";
  ExpectOthersAreAnswered();
}

TEST_F(SlowWebClientTest, LargeAnswersThatAreNotReadAreLimited) {
  RawConnections slow(server_->port());
  for (std::size_t i = 0; i < 2; ++i) {
    slow.Open(Get("/large"));
    AwaitAnswer(slow, i);
  }
  EXPECT_THAT(Ask(server_->port(), "/large"),
              ::testing::AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("too many large answers")));
  ExpectOthersAreAnswered();
  // When they have gone there is room again.
  slow.CloseAll();
  while (!Ask(server_->port(), "/large").starts_with("HTTP/1.1 200")) {
  }
}

std::size_t ResidentBytes() {
  std::ifstream statistics("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  statistics >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class SlowClientsOfADaemonTest : public DaemonTest {};

TEST_F(SlowClientsOfADaemonTest, MemoryStaysFlatAndOthersAreAnswered) {
  constexpr std::size_t kClients = 100;
  constexpr std::size_t kMostGrowth = 150'000'000;
  // A large image, and an example with a large text.
  const std::string image = folder_.Write("pools/image.png", "");
  std::filesystem::resize_file(image, 64 * kMebibyte);
  folder_.Write("pools/texts.csv",
                absl::StrCat("id,f0,f1,text\na,1,2,", std::string(kMebibyte, 't'), "\nb,2,1,short\nc,3,3,short\n"));
  pipeline::DaemonOptions options = Options();
  options.web.address = "127.0.0.1:0";
  StartDaemon(options);
  v1::CampaignSpec spec = CloudSpec("texts", 4);
  spec.mutable_pool()->set_sources(0, "texts.csv");
  spec.mutable_pool()->set_payload_column("text");
  const grpc::Status created = Client().Create(spec);
  ASSERT_TRUE(created.ok()) << created.error_message();

  const std::size_t before = ResidentBytes();
  RawConnections slow(daemon_->web_port());
  const std::string body = R"({"campaign": "texts", "itemId": "a"})";
  const std::string head =
      "POST /fulcrum.v1.ItemService/GetItem HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Type: application/json\r\n";
  for (std::size_t i = 0; i < kClients; ++i) {
    slow.Open(Get("/files/image.png"));
    slow.Open(absl::StrCat(head, "Content-Length: ", body.size(), "\r\n\r\n", body));
    slow.Open(absl::StrCat(head, "Content-Length: ", 5 * kMebibyte, "\r\n\r\n{"));
    EXPECT_THAT(Ask(daemon_->web_port(), "/"), StartsWith("HTTP/1.1 200"));
    EXPECT_EQ(Client().Get("texts").name(), "texts");
  }
  ASSERT_EQ(slow.size(), 3 * kClients);
  if (!kUnderSanitizer) {
    EXPECT_LT(ResidentBytes(), before + kMostGrowth);
  }
}

}  // namespace
}  // namespace fulcrum::testing
