// Everything that lets others watch the daemon: /metrics, /healthz and /readyz over HTTP, and the watchdog's food.
//
//   /metrics  Prometheus' text format
//   /healthz  200 while its parts answer, 503 when it hangs and should be started again
//   /readyz   200 while it serves, its stores are sound and its disk can be written
//
// Owns its threads. What it looks at must outlive it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_book.h"
#include "pipeline/grpc_server.h"
#include "pipeline/operation/daemon_figures.h"
#include "pipeline/operation/daemon_metrics.h"
#include "pipeline/operation/http_server.h"
#include "pipeline/operation/process_figures.h"
#include "pipeline/operation/pulse.h"
#include "pipeline/operation/watch_options.h"

namespace fulcrum::pipeline {

class DaemonWatch {
 public:
  struct Subject {
    std::string data_folder;
    std::string grpc_address;
    CampaignBook& campaigns;
    const GrpcServer& server;
    const DaemonMetrics& metrics;
    DaemonFigures::Queues queues;
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
  /// Told to the service manager after every beat.
  void OnBeat(const absl::Status& status);

  const Subject subject_;
  const DaemonFigures figures_;
  const ProcessFigures process_;
  std::atomic<bool> stopping_ = false;
  bool was_well_ = true;  // used by the pulse's thread
  std::unique_ptr<Pulse> pulse_;
  std::unique_ptr<HttpServer> http_;  // last: its threads use all of the above
};

}  // namespace fulcrum::pipeline
