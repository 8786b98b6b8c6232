// The daemon: campaigns, services and the server around them, from start to an orderly end.
//
// Used by one thread: Start, then Wait until something ends it, then Stop.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/cluster/cluster_round_job.h"
#include "pipeline/campaign/pool/upload_store.h"
#include "pipeline/operation/watchdog.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/grpc_server.h"

namespace fulcrum::storage {
class Clock;
}  // namespace fulcrum::storage

namespace fulcrum::pipeline {

/// The page and the API as JSON over HTTP.
struct WebOptions {
  std::string address = {};  ///< HOST:PORT; empty: none
  bool may_fail = false;     ///< a port in use is only a warning, because it is the default
};

struct DaemonOptions {
  std::string data_folder = {};  ///< campaigns and tokens; created if absent
  std::string pool_root = ".";   ///< pools are read only from this folder
  UploadLimits uploads = {};     ///< of what clients send to be pools
  /// What campaigns may let compute their rounds. Without a program it is this one.
  ClusterLaunchers launchers = {};
  GrpcServerOptions server = {};
  std::size_t memory_budget = 0;        ///< bytes for pools and rounds; 0: the machine's limit only
  std::size_t most_campaigns = 10'000;  ///< more are refused
  std::size_t threads = 0;              ///< of all rounds together; 0: one per core
  bool ask_for_tokens = true;           ///< off only on loopback
  RateLimit rate = {.calls_a_second = 1000, .burst = 2000};  ///< of one token
  std::chrono::milliseconds stop_time{20'000};               ///< after which Stop ends the process
  std::chrono::milliseconds reopen_time{5'000};              ///< before a broken campaign is opened again
  const storage::Clock* clock = nullptr;                     ///< of the stores; null: storage::AnchoredClock
  WatchOptions watch = {};
  WebOptions web = {};
};

class Daemon {
 public:
  /// Opens every campaign and listens. InvalidArgument for settings that would allow unauthenticated access, Cancelled
  /// if `stop` ends it, which closes the campaigns that are open already.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(DaemonOptions options, const std::stop_token& stop = {});
  /// Stops at once if Stop was not called.
  ~Daemon();

  int port() const;
  /// The port of /metrics, /healthz and /readyz; 0 if they are off.
  int watch_port() const;
  /// The port of the page and of the API over HTTP; 0 if they are off.
  int web_port() const;
  /// Returns when the file descriptor `signals` becomes readable, or with the error that ends the daemon.
  absl::Status Wait(int signals);
  /// Accepts no more calls, lets running ones finish for half of the stop time, cancels rounds, and closes the
  /// campaigns. If a round or a call has not ended by then, the stores of the other campaigns are closed and the
  /// process exits with kForcedExit: everything that was acknowledged is on disk.
  absl::Status Stop();

  static constexpr int kForcedExit = 75;

 private:
  struct Parts;
  explicit Daemon(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace fulcrum::pipeline
