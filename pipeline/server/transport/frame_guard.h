// Counts the HTTP/2 frames of every connection before gRPC sees them, and closes connections that flood.
//
// gRPC 1.51 starts a call for every HEADERS frame, before any authentication, and keeps it for a while after a
// RST_STREAM: a client that opens and resets streams fast enough makes the server run out of memory although it never
// has more than the allowed number of streams (CVE-2023-44487). It does not hold a client to that number either before
// the client has acknowledged the server's SETTINGS, which a client can leave out. Frames that cost the client nothing
// and the server an answer (PING, SETTINGS) are the same problem on a smaller scale.
//
// How the frames are seen: this module defines recvmsg and SSL_read, which the program then uses instead of those of
// the C library and of OpenSSL. Both call the original and look at what it returned. Nothing is copied, no system call
// is added, and connections with TLS are covered as well, because gRPC decrypts with SSL_read. Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace fulcrum::pipeline {

/// A number of events at once, and per second after that.
struct FrameRate {
  double burst = 0;
  double per_second = 0;
};

struct FrameLimits {
  /// RST_STREAM. A client has at most 100 streams at a time, so that this is twice all of them.
  FrameRate resets = {.burst = 200, .per_second = 100};
  /// Of all connections together; then those are closed that have sent more than a few of late.
  FrameRate all_resets = {.burst = 2000, .per_second = 1000};
  /// PING, SETTINGS, PRIORITY, empty DATA and unknown frames. Clients measure the bandwidth with a PING per round trip,
  /// one at a time: many per second on a fast network, but never many at once.
  FrameRate control = {.burst = 100, .per_second = 5000};
  /// HEADERS before the first acknowledgement of SETTINGS. Clients that do not wait for the server's SETTINGS open at
  /// most 100 streams before they have them, and acknowledge them at once.
  int unacknowledged_headers = 200;
  /// The same of all connections together; then those are closed that have sent more than a few.
  FrameRate all_unacknowledged_headers = {.burst = 1000, .per_second = 500};
  /// CONTINUATION frames of one header block; gRPC accepts 8 KiB of headers, which fit into one frame.
  int continuations = 8;
};

/// Follows what one client sends. Not thread-safe.
class FrameCounter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit FrameCounter(const FrameLimits& limits = {});

  /// Counts the frames in the next bytes of the connection. Null, or what the client sends too much of.
  const char* Take(std::span<const std::uint8_t> bytes, Clock::time_point now);

 private:
  static constexpr std::size_t kHeaderBytes = 9;

  struct Bucket {
    double left = 0;
    Clock::time_point at = {};
    /// False if there is nothing left.
    bool Spend(const FrameRate& rate, Clock::time_point now);
  };

  const char* Count(Clock::time_point now);
  const char* CountReset(Clock::time_point now);
  const char* CountUnacknowledged(Clock::time_point now);

  const FrameLimits limits_;
  Bucket resets_, control_;
  int continuations_ = 0;
  int headers_ = 0;            // until SETTINGS are acknowledged
  bool acknowledged_ = false;  // the limit of streams is in force
  std::size_t preface_ = 0;    // bytes of the connection preface that have come
  bool foreign_ = false;       // it does not speak HTTP/2: gRPC closes it, or it is encrypted
  std::array<std::uint8_t, kHeaderBytes> header_ = {};
  std::size_t header_size_ = 0;
  std::size_t skip_ = 0;  // bytes of the current frame's payload that are still to come
};

/// From now on the frames that are received on this connection are counted. It must have been accepted just now.
void GuardConnection(int descriptor);

/// How many connections were closed so far.
std::int64_t ConnectionsClosedForFloods();
/// Whether so many were closed of late that new ones should wait a little before they are accepted.
bool FloodIsOn();

}  // namespace fulcrum::pipeline
