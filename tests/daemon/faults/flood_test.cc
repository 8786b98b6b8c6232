// Floods of HTTP/2 frames and of connections against the real program: its memory stays flat, and other clients, those
// with a connection and new ones, are answered meanwhile. Prints the latencies of the other clients.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/daemon/daemon_fixture.h"
#include "tests/daemon/daemon_process.h"
#include "tests/daemon/raw_connections.h"
#include "tests/support/http2_frames.h"
#include "tests/support/sanitizers.h"

namespace fulcrum::testing {
namespace {

constexpr int kConnections = 10;
constexpr int kFrames = 20'000;
constexpr int kFramesAtOnce = 100;
constexpr char kVersionMethod[] = "/fulcrum.v1.ServerService/GetVersion";
constexpr std::size_t kMostGrowth = 100'000'000;
constexpr double kTooSlow = 0.2;
constexpr std::size_t kCallsThatTell = 200;
// A client that the full queue of the listener drops comes back after a second.
constexpr double kTooSlowForNewOnes = 1;

/// What a flood consists of: the bytes for one stream.
using FloodFrames = std::function<std::string(std::uint32_t stream)>;

double Percentile99(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() * 99 / 100];
}

class FloodTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    process_ = std::make_unique<DaemonProcess>(
        std::vector<std::string>{"--no-tokens", "--data", folder_.File("data"), "--pools", folder_.File("pools")});
    process_->Spawn();
    client_ = std::make_unique<DaemonClient>(process_->port(), "");
    ASSERT_TRUE(client_->Create(CloudSpec("clouds", 4)).ok());
  }

  /// Sends kFrames frames; a connection that is closed is opened again at once.
  void SendFrames(const FloodFrames& frames) const {
    RawConnections connection(process_->port());
    std::uint32_t stream = 1;
    for (int sent = 0; sent < kFrames;) {
      std::string bytes;
      if (connection.size() == 0) connection.Open(kHttp2Preface + Frame(4, 0, 0, ""));
      for (int at = 0; at < kFramesAtOnce; ++at, stream += 2) bytes += frames(stream);
      if (connection.size() > 0 && connection.Send(0, bytes)) {
        sent += kFramesAtOnce;
        continue;
      }
      connection.CloseAll();
      stream = 1;
    }
  }

  /// Opens and closes connections, each with the start of a flood.
  void OpenAndClose(const FloodFrames& frames, int at_once = kFramesAtOnce) const {
    std::string bytes = kHttp2Preface + Frame(4, 0, 0, "");
    for (int i = 0; i < at_once; ++i) bytes += frames(static_cast<std::uint32_t>(2 * i + 1));
    for (int sent = 0; sent < kFrames; sent += at_once) {
      RawConnections connection(process_->port());
      connection.Open(bytes);
    }
  }

  double SecondsOfCall(DaemonClient& client) const {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(client.Get("clouds").name(), "clouds");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }

  DaemonClient NewClient() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // otherwise it would share the connection of another
    return DaemonClient(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", process_->port()),
                                                  grpc::InsecureChannelCredentials(), arguments),
                        "");
  }

  void ExpectHarmless(const std::string& name, const std::function<void()>& attack) {
    process_->ForgetPeak();
    const std::size_t before = process_->ResidentBytes();
    std::atomic<int> attacking = kConnections;
    std::vector<std::jthread> attackers;
    for (int i = 0; i < kConnections; ++i) {
      attackers.emplace_back([&] {
        attack();
        --attacking;
      });
    }
    std::vector<double> existing, fresh;
    {
      const std::jthread newcomers([&] {
        while (attacking > 0) {
          DaemonClient client = NewClient();
          fresh.push_back(SecondsOfCall(client));
        }
      });
      while (attacking > 0) existing.push_back(SecondsOfCall(*client_));
    }
    attackers.clear();
    const std::size_t peak = process_->PeakResidentBytes();
    std::printf("%s: p99 of %zu calls %.0f ms, of %zu new connections %.0f ms; memory %+.1f MB at most\n", name.c_str(),
                existing.size(), 1000 * Percentile99(existing), fresh.size(), 1000 * Percentile99(fresh),
                (static_cast<double>(peak) - static_cast<double>(before)) / 1e6);
    EXPECT_TRUE(process_->Lives());
    if (kUnderSanitizer) return;
    EXPECT_GE(peak, before / 2) << "the system does not report it";
    EXPECT_LT(peak, before + kMostGrowth) << name;
    // Of a few calls one that waited for a processor would decide.
    EXPECT_LT(Percentile99(existing), existing.size() >= kCallsThatTell ? kTooSlow : kTooSlowForNewOnes) << name;
    EXPECT_LT(Percentile99(fresh), kTooSlowForNewOnes) << name;
  }

  std::unique_ptr<DaemonProcess> process_;
  std::unique_ptr<DaemonClient> client_;
};

std::string ContinuationFrame(std::uint32_t stream) {
  return stream == 1 ? Frame(1, 0, 1, "") : Frame(9, 0, 1, std::string("\0\x01x\x01y", 5));
}

TEST_F(FloodTest, RapidReset) {
  const FloodFrames frames = [](std::uint32_t stream) {
    return RequestFrame(stream, kVersionMethod) + ResetFrame(stream);
  };
  ExpectHarmless("rapid reset", [&] { SendFrames(frames); });
}

TEST_F(FloodTest, StreamsOfAClientThatNeverAcknowledgesTheirLimit) {
  const FloodFrames frames = [](std::uint32_t stream) { return RequestFrame(stream, kVersionMethod); };
  ExpectHarmless("headers", [&] { SendFrames(frames); });
}

TEST_F(FloodTest, FewResetsPerConnection) {
  const FloodFrames frames = [](std::uint32_t stream) {
    return RequestFrame(stream, kVersionMethod) + ResetFrame(stream);
  };
  ExpectHarmless("few resets per connection", [&] { OpenAndClose(frames, 20); });
}

TEST_F(FloodTest, Ping) {
  ExpectHarmless("ping", [&] { SendFrames([](std::uint32_t) { return Frame(6, 0, 0, std::string(8, 'p')); }); });
}

TEST_F(FloodTest, Settings) {
  const FloodFrames frames = [](std::uint32_t) { return Frame(4, 0, 0, std::string("\0\x04\0\0\xff\xff", 6)); };
  ExpectHarmless("settings", [&] { SendFrames(frames); });
}

TEST_F(FloodTest, Continuation) {
  ExpectHarmless("continuation", [&] { SendFrames(ContinuationFrame); });
}

TEST_F(FloodTest, Connections) {
  ExpectHarmless("connections", [&] { OpenAndClose(ContinuationFrame); });
}

}  // namespace
}  // namespace fulcrum::testing
