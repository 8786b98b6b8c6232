// Everything that monitors the daemon: /metrics, /healthz and /readyz over HTTP, and the service manager's watchdog.
//
//   /metrics  Prometheus' text format
//   /healthz  200 while its parts respond, 503 if it hangs and should be restarted
//   /readyz   200 while it serves, its stores are sound and its disk can be written. Broken and quarantined campaigns
//             are listed in the text and do not change the code: the other campaigns must stay reachable
//
// It answers from the first second: while the campaigns are opened the daemon is alive and not ready. Owns its threads.
// The objects it monitors must outlive it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
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
#include "pipeline/operation/metrics.h"
#include "pipeline/server/grpc_server.h"

namespace fulcrum::pipeline {

// A small HTTP server for monitoring: a scraper, an orchestrator's probes, a person with curl.
//
// GET only, a fixed set of paths. One thread waits for all connections at once, so that clients that send half a
// request or do not read the response do not delay others; when there are too many connections, the oldest incomplete
// request is closed. The handler of a path runs on two threads of its own, so that a flood of one path delays no other,
// except urgent ones, which are answered even if these are blocked. Handlers must be thread-safe; the destructor waits
// for those that are running. Owns its sockets and threads.

struct HttpAnswer {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
};

struct HttpHandler {
  std::function<HttpAnswer()> answer = {};
  bool urgent = false;  ///< runs on the thread that waits for connections, and must not block
};

class HttpServer {
 public:
  using Handlers = std::map<std::string, HttpHandler>;  ///< by path

  /// Listens on HOST:PORT; port 0 lets the system choose. Unavailable if it cannot.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  class Loop;
  explicit HttpServer(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
};

// Settings of monitoring. A plain value.

struct WatchOptions {
  std::string address = {};  ///< HOST:PORT of /metrics, /healthz and /readyz; empty: none
  bool may_fail = false;     ///< a port in use is only a warning, because it is the default
  /// Interval of heartbeats; at most a third of the service manager's watchdog timeout.
  std::chrono::milliseconds heartbeat{5'000};
};

// Heartbeat of the daemon: checks each of its parts periodically.
//
// A thread calls the probes one after another; a heartbeat is healthy if all of them succeed. systemd's watchdog and an
// orchestrator's liveness probe depend on healthy heartbeats, so the daemon is restarted after a deadlock, if a writer
// is blocked by a failed disk, or if the listener no longer accepts connections. Thread-safe.

/// One part of the daemon. `ask` must return within approximately the given time.
struct Probe {
  std::string name = {};
  std::function<absl::Status(std::chrono::milliseconds patience)> ask = {};
};

class Heartbeat {
 public:
  using Clock = std::chrono::steady_clock;

  /// `on_beat` is called on the heartbeat thread after every heartbeat, with its status.
  Heartbeat(std::vector<Probe> probes, std::chrono::milliseconds period,
            std::function<void(const absl::Status&)> on_beat);
  /// Stops if Stop was not called.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Ends the heartbeats. Waits for the running probe.
  void Stop();
  /// The status of the last heartbeat; OK before the first.
  absl::Status last() const;
  /// OK if there was a healthy heartbeat within the last few intervals; otherwise the error.
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
    std::string grpc_address;
    CampaignRegistry& campaigns;
    const GrpcServer& server;
    DaemonFigures::Queues queues;
    bool tls = false;  ///< the gRPC listener expects TLS
  };

  /// Answers over HTTP; not ready until Attach.
  static absl::StatusOr<std::unique_ptr<DaemonWatch>> Start(const WatchOptions& options, std::string data_folder,
                                                            const DaemonMetrics& metrics);
  ~DaemonWatch();
  /// Begins the heartbeats. For the thread that called Start, once.
  void Attach(Subject subject);

  /// 0 if HTTP is off.
  int port() const { return http_ == nullptr ? 0 : http_->port(); }
  /// Reports not ready from now on, and ends the heartbeats. For one thread.
  void NoteStopping();

 private:
  struct Attached;

  DaemonWatch(std::string data_folder, const DaemonMetrics& metrics, std::chrono::milliseconds period);
  std::string MetricsText() const;
  absl::Status Alive() const;
  absl::Status Ready() const;
  /// Readiness, and the campaigns that need attention.
  HttpAnswer Readiness() const;
  /// Sent to the service manager after every heartbeat.
  void OnBeat(const CampaignRegistry& campaigns, const absl::Status& status);

  const std::string data_folder_;
  const DaemonMetrics& metrics_;
  const std::chrono::milliseconds period_;
  const ProcessFigures process_;
  std::atomic<bool> stopping_ = false;
  bool was_healthy_ = true;  // used by the heartbeat thread
  std::unique_ptr<Attached> owned_;
  std::atomic<Attached*> attached_ = nullptr;  // null while the daemon starts
  std::unique_ptr<HttpServer> http_;           // last: its threads use all of the above
};

// Notifications to the service manager (systemd): ready, stopping, status, watchdog. No-ops without a service manager.
//
// Plain functions over sd_notify, which does nothing unless NOTIFY_SOCKET is set. Thread-safe.

void NotifyReady();
/// Extends the manager's stop timeout to `within`.
void NotifyStopping(std::chrono::milliseconds within);
/// One line for `systemctl status`.
void NotifyStatus(const std::string& text);
/// Sends a watchdog notification.
void NotifyAlive();
/// The watchdog timeout of the manager; nothing if its watchdog is off.
std::optional<std::chrono::microseconds> WatchdogTime();

/// Returns to the system what the allocator keeps of freed memory, if it is much. The memory of rounds is freed in
/// pieces between others that stay, so that without this the process would keep the most that it ever needed. Called
/// after every heartbeat.
void ReturnFreeMemory();

// Ends the process after a time, whatever else hangs: a stage, a handler, a disk, or a reader of the log who has
// stopped reading.

class ExitTimer {
 public:
  /// Exits with this code after the limit, but not within a second, unless it is destroyed before.
  ExitTimer(std::chrono::milliseconds limit, int exit_code);

  std::chrono::milliseconds limit() const { return limit_; }

 private:
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;  // last: it uses all of the above
};

// Health checks of the parts of the daemon. Plain functions; thread-safe.

/// The listener accepts connections. The arguments are those of ProbeListener.
Probe ListenerProbe(std::string address, int port, bool tls);
/// Calls are answered: one in-process call to the server.
Probe CallProbe(const GrpcServer& server);
/// The writing thread of every campaign answers a read-only request.
Probe StoreProbe(const CampaignRegistry& campaigns);

/// Returns the error of the first failed store, if any.
absl::Status CheckStores(const CampaignRegistry& campaigns);
/// Broken and quarantined campaigns and those that lost events, with the reason, one line each; empty if there are
/// none. They do not make the daemon unready: the other campaigns would be unreachable until an administrator acts.
std::string DescribeProblems(const CampaignRegistry& campaigns);
/// Writes a file and removes it again.
absl::Status CheckDiskIsWritable(const std::string& folder);

/// "3 campaigns, 2 of them running; 5 leases, 120 labels", for the service manager's status.
std::string DescribeInOneLine(const CampaignRegistry& campaigns);

// Checks from outside that a listener still accepts connections.
//
// gRPC's listener can stop accepting permanently without an error (when the process has run out of file descriptors).
// The kernel still completes handshakes, so only a response counts: an HTTP/2 server sends the first frame, and a TLS
// server answers a ClientHello. A pure function, thread-safe.

/// `address` is the configured address (host:port, [ipv6]:port or unix:path), `port` the bound port.
/// Unavailable if there is no response in time.
absl::Status ProbeListener(const std::string& address, int port, std::chrono::milliseconds timeout, bool tls = false);

}  // namespace fulcrum::pipeline
