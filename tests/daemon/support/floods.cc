#include "tests/daemon/support/floods.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/daemon/support/daemon_client.h"
#include "tests/daemon/support/raw_connections.h"
#include "tests/support/http2_frames.h"

namespace fulcrum::testing {
namespace {

constexpr int kClients = 10;
constexpr int kFrames = 20'000;
constexpr int kFramesAtOnce = 100;
constexpr int kMostTimes = 20;
constexpr char kVersionMethod[] = "/fulcrum.v1.ServerService/GetVersion";

/// What a flood consists of: the bytes for one stream.
using FloodFrames = std::function<std::string(std::uint32_t stream)>;

/// Sends kFrames frames; a connection that is closed is opened again at once.
std::function<void(int)> SendFrames(FloodFrames frames) {
  return [frames = std::move(frames)](int port) {
    RawConnections connection(port);
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
  };
}

/// Opens and closes connections, each with the start of a flood.
std::function<void(int)> OpenAndClose(FloodFrames frames, int at_once) {
  return [frames = std::move(frames), at_once](int port) {
    std::string bytes = kHttp2Preface + Frame(4, 0, 0, "");
    for (int i = 0; i < at_once; ++i) bytes += frames(static_cast<std::uint32_t>(2 * i + 1));
    for (int sent = 0; sent < kFrames; sent += at_once) {
      RawConnections connection(port);
      connection.Open(bytes);
    }
  };
}

std::string Request(std::uint32_t stream) {
  return RequestFrame(stream, kVersionMethod);
}

std::string RequestAndReset(std::uint32_t stream) {
  return Request(stream) + ResetFrame(stream);
}

std::string Ping(std::uint32_t) {
  return Frame(6, 0, 0, std::string(8, 'p'));
}

std::string Settings(std::uint32_t) {
  return Frame(4, 0, 0, std::string("\0\x04\0\0\xff\xff", 6));
}

std::string Continuation(std::uint32_t stream) {
  return stream == 1 ? Frame(1, 0, 1, "") : Frame(9, 0, 1, std::string("\0\x01x\x01y", 5));
}

/// As clients do, a call is repeated while the server is unavailable.
double SecondsOfCall(DaemonClient& client) {
  const auto begun = std::chrono::steady_clock::now();
  v1::Campaign campaign;
  grpc::Status status = client.TryGet("clouds", &campaign);
  while (status.error_code() == grpc::StatusCode::UNAVAILABLE) status = client.TryGet("clouds", &campaign);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

DaemonClient NewClient(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // otherwise it would share the connection of another
  return DaemonClient(
      grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments), "");
}

}  // namespace

const std::vector<Flood>& Floods() {
  static const auto* const floods =
      new std::vector<Flood>{{"RapidReset", SendFrames(RequestAndReset)},
                             {"StreamsOfAClientThatNeverAcknowledgesTheirLimit", SendFrames(Request)},
                             {"FewResetsPerConnection", OpenAndClose(RequestAndReset, 20)},
                             {"Ping", SendFrames(Ping)},
                             {"Settings", SendFrames(Settings)},
                             {"Continuation", SendFrames(Continuation)},
                             {"Connections", OpenAndClose(Continuation, kFramesAtOnce)}};
  return *floods;
}

FloodEffect Endure(const DaemonProcess& daemon, const Flood& flood, std::size_t calls) {
  FloodEffect effect;
  DaemonClient existing = NewClient(daemon.port());
  SecondsOfCall(existing);
  daemon.ForgetPeak();
  const std::size_t before = daemon.ResidentBytes();
  {
    std::atomic<bool> over = false;
    std::atomic<int> first_ones = kClients;  // clients that have not sent all for the first time
    std::atomic<int> sending = kClients;
    std::vector<std::jthread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back([&] {
        flood.send(daemon.port());
        --first_ones;
        for (int time = 1; time < kMostTimes && !over; ++time) flood.send(daemon.port());
        --sending;
      });
    }
    clients.emplace_back([&] {
      while (!over) {
        DaemonClient client = NewClient(daemon.port());
        effect.fresh.push_back(SecondsOfCall(client));
      }
    });
    while (first_ones > 0 || (sending > 0 && effect.existing.size() < calls)) {
      effect.existing.push_back(SecondsOfCall(existing));
    }
    over = true;
  }
  const std::size_t peak = daemon.PeakResidentBytes();
  EXPECT_GE(peak, before / 2) << "the system does not report it";
  effect.growth_bytes = peak > before ? peak - before : 0;
  return effect;
}

double Percentile99(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  std::sort(seconds.begin(), seconds.end());
  return 1000 * seconds[seconds.size() * 99 / 100];
}

}  // namespace fulcrum::testing
