// The way to a server: its address, TLS, and the token that goes with every call.
//
// Thread-safe after construction; shared by what makes calls over it. Connecting happens with the first call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/random.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace fulcrum::pipeline {

struct ConnectionOptions {
  std::string server = "127.0.0.1:7410";
  std::string token_file = {};  ///< empty: FULCRUM_TOKEN, where it is set
  std::string tls_ca = {};      ///< certificates that the server's must be signed by; empty: no TLS
  std::string tls_cert = {};    ///< the client's own, for mutual TLS
  std::string tls_key = {};
};

class ServerConnection {
 public:
  /// Reads token and certificates. InvalidArgument if they do not fit together, or if a token would leave the
  /// machine unencrypted.
  static absl::StatusOr<std::shared_ptr<const ServerConnection>> Open(const ConnectionOptions& options);

  const std::string& server() const { return server_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  /// Puts the token into a call's metadata and gives it a deadline; none for zero.
  void Prepare(std::chrono::milliseconds deadline, grpc::ClientContext& context) const;

 private:
  ServerConnection(std::string server, std::string token, std::shared_ptr<grpc::Channel> channel);

  const std::string server_;
  const std::string token_;
  const std::shared_ptr<grpc::Channel> channel_;
};

// Repeats a call that did not reach the server, with growing pauses that differ from worker to worker.
//
// The pauses matter when a daemon comes back and a thousand workers have waited for it. Thread-safe as far as the given
// functions are; a Retrier belongs to one thread.

/// The clock and the pauses, so that tests need neither.
struct Timing {
  std::function<std::chrono::steady_clock::time_point()> now;
  /// Waits; false if the wait was broken off because the command should end.
  std::function<bool(std::chrono::milliseconds)> sleep;
  /// Waits to the end.
  std::function<void(std::chrono::milliseconds)> pause;
};

struct RetryPolicy {
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{5'000};  ///< pauses double until then
  std::chrono::milliseconds give_up_after{300'000};
};

class Retrier {
 public:
  using Attempt = std::function<absl::Status()>;
  /// Told before the first pause of a call, for a person who waits.
  using OnTrouble = std::function<void(const absl::Status&)>;

  Retrier(RetryPolicy policy, Timing timing, std::uint64_t seed, OnTrouble on_trouble = {});

  /// Repeats `attempt`, which must do the same each time, while its error MayPass, and not before the time that the
  /// error asks for. Then the last error; Cancelled if
  /// a pause was broken off.
  absl::Status Call(const Attempt& attempt);

  /// Attempts after the first, over all calls.
  std::uint64_t repeats() const { return repeats_; }

 private:
  /// Between half of the full pause and all of it.
  std::chrono::milliseconds Jittered(std::chrono::milliseconds pause);

  const RetryPolicy policy_;
  const Timing timing_;
  const OnTrouble on_trouble_;
  Random random_;
  std::uint64_t repeats_ = 0;
};

// How a client command learns that it should end: Ctrl-C, SIGTERM or SIGHUP, or a test.
//
// StopFlag is thread-safe and may be raised from a signal handler. At most one StopOnSignals at a time.

class StopFlag {
 public:
  StopFlag();
  ~StopFlag();
  StopFlag(const StopFlag&) = delete;
  StopFlag& operator=(const StopFlag&) = delete;

  /// Safe in a signal handler.
  void Raise();
  bool raised() const { return raised_.load(); }
  /// Waits, and says whether there is time to go on: false once the flag is raised.
  bool Sleep(std::chrono::milliseconds time) const;
  /// Readable once the flag is raised, for poll().
  int descriptor() const { return descriptor_; }

 private:
  std::atomic<bool> raised_{false};
  const int descriptor_;
};

/// While it lives, the first signal raises the flag, so that the command ends in order; a second one ends the process.
class StopOnSignals {
 public:
  explicit StopOnSignals(StopFlag& flag);
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

  /// Called before a second signal ends the process; must be safe in a signal handler. Null for nothing.
  static void SetLastAct(void (*act)());
};

}  // namespace fulcrum::pipeline
