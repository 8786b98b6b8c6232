// Everything that monitors the daemon: /metrics, /healthz and /readyz over HTTP, and the service manager's watchdog.
//
//   /metrics  Prometheus' text format
//   /healthz  200 while its parts answer, 503 when it hangs and should be restarted
//   /readyz   200 while it serves, its stores are sound and its disk can be written. Broken and quarantined campaigns
//             are listed in the text and do not change the code: the other campaigns must stay reachable
//
// Owns its threads. What it looks at must outlive it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/operation/http_server.h"
#include "pipeline/operation/metrics.h"
#include "pipeline/server/grpc_server.h"

namespace fulcrum::pipeline {

// How the daemon lets itself be watched. A plain value.

struct WatchOptions {
  std::string address = {};  ///< HOST:PORT of /metrics, /healthz and /readyz; empty: none
  bool may_fail = false;     ///< a port that is taken is a warning: nobody asked for this one
  /// Between signs of life; a third of the watchdog's time where a service manager asks for them more often.
  std::chrono::milliseconds pulse{5'000};
};

// Whether the daemon really works: asks each of its parts for a sign of life, again and again.
//
// A thread asks the probes one after the other; a beat is good when all of them answered. Whoever restarts a daemon
// that hangs (systemd's watchdog, an orchestrator's liveness probe) goes by good beats, so a deadlock, a writer that
// waits for a dead disk or a deaf listener ends the process instead of the patience of its users. Thread-safe.

/// One part of the daemon. `ask` must return within about the given time.
struct Probe {
  std::string name = {};
  std::function<absl::Status(std::chrono::milliseconds patience)> ask = {};
};

class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;

  /// `on_beat` is called on the pulse's thread after every beat, with what was wrong or OK.
  Heartbeat(std::vector<Probe> probes, std::chrono::milliseconds period,
            std::function<void(const absl::Status&)> on_beat);
  /// Stops, where that was not done.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// No beat follows. Waits for the probe that is being asked.
  void Stop();
  /// What the last beat found; OK before the first.
  absl::Status last() const;
  /// OK while there was a good beat within the last few periods; otherwise what is wrong.
  absl::Status Alive() const;

 private:
  void Loop(const std::stop_token& stop);
  absl::Status Beat() const;

  const std::vector<Probe> probes_;
  const std::chrono::milliseconds period_;
  const std::function<void(const absl::Status&)> on_beat_;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  absl::Status last_;
  Clock::time_point last_good_;
  std::jthread thread_;  // last: it uses all of the above
};

class DaemonWatch {
 public:
  struct Subject {
    std::string data_folder;
    std::string grpc_address;
    CampaignRegistry& campaigns;
    const GrpcServer& server;
    const DaemonMetrics& metrics;
    DaemonFigures::Queues queues;
    bool tls = false;  ///< the gRPC listener expects TLS
  };

  static absl::StatusOr<std::unique_ptr<DaemonWatch>> Start(const WatchOptions& options, Subject subject);

  /// 0 without HTTP.
  int port() const { return http_ == nullptr ? 0 : http_->port(); }
  /// Not ready from now on, and not asked for signs of life any more. For one thread.
  void NoteStopping();

 private:
  explicit DaemonWatch(Subject subject);
  void StartPulse(std::chrono::milliseconds period);
  std::string MetricsText() const;
  absl::Status Alive() const;
  absl::Status Ready() const;
  /// Ready, and the campaigns that somebody should look at.
  HttpAnswer Readiness() const;
  /// Told to the service manager after every beat.
  void OnBeat(const absl::Status& status);

  const Subject subject_;
  const DaemonFigures figures_;
  const ProcessFigures process_;
  std::atomic<bool> stopping_ = false;
  bool was_well_ = true;  // used by the pulse's thread
  std::unique_ptr<Heartbeat> pulse_;
  std::unique_ptr<HttpServer> http_;  // last: its threads use all of the above
};

// What the service manager (systemd) is told: ready, stopping, how it is, still alive. Nothing where there is none.
//
// Plain functions over sd_notify, which does nothing unless NOTIFY_SOCKET is set. Thread-safe.

void NotifyReady();
/// From then on the manager waits for the end of the process as long as `within`, however short its own patience.
void NotifyStopping(std::chrono::milliseconds within);
/// One line for `systemctl status`.
void NotifyStatus(const std::string& text);
/// Feeds the watchdog.
void NotifyAlive();
/// How often the manager wants to hear that the process is alive, or else ends it; nothing where it does not watch.
std::optional<std::chrono::microseconds> WatchdogTime();

}  // namespace fulcrum::pipeline
