#include "pipeline/operation/daemon_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/operation/daemon_probes.h"
#include "pipeline/operation/service_notice.h"
#include "pipeline/operation/structured_log.h"
#include "prometheus/text_serializer.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

HttpAnswer AnswerOf(const absl::Status& status) {
  if (status.ok()) return {.body = "ok\n"};
  return {.code = 503, .body = absl::StrCat(status.message(), "\n")};
}

/// A beat that is late by one is still in time for the watchdog.
std::chrono::milliseconds PeriodFor(std::chrono::milliseconds wished) {
  const auto watchdog = WatchdogTime();
  if (!watchdog) return wished;
  return std::min(wished, std::chrono::duration_cast<std::chrono::milliseconds>(*watchdog) / 3);
}

}  // namespace

DaemonWatch::DaemonWatch(Subject subject)
    : subject_(std::move(subject)), figures_(subject_.campaigns, subject_.queues) {}

absl::StatusOr<std::unique_ptr<DaemonWatch>> DaemonWatch::Start(const WatchOptions& options, Subject subject) {
  std::unique_ptr<DaemonWatch> watch(new DaemonWatch(std::move(subject)));
  watch->StartPulse(PeriodFor(options.pulse));
  if (options.address.empty()) return watch;
  DaemonWatch& it = *watch;
  auto http = HttpServer::Start(
      options.address, {{"/metrics", [&it] { return HttpAnswer{.type = kMetricsType, .body = it.MetricsText()}; }},
                        {"/healthz", [&it] { return AnswerOf(it.Alive()); }},
                        {"/readyz", [&it] { return AnswerOf(it.Ready()); }}});
  if (http.ok()) {
    it.http_ = *std::move(http);
  } else if (!options.may_fail) {
    return http.status();
  } else {
    Log(LogLevel::kWarning, "no metrics: give --metrics another address, or 'off'",
        {{"reason", std::string(http.status().message())}});
  }
  return watch;
}

void DaemonWatch::StartPulse(std::chrono::milliseconds period) {
  std::vector<Probe> probes = {ListenerProbe(subject_.grpc_address, subject_.server.port()), CallProbe(subject_.server),
                               StoreProbe(subject_.campaigns)};
  pulse_ = std::make_unique<Pulse>(std::move(probes), period, [this](const absl::Status& status) { OnBeat(status); });
}

std::string DaemonWatch::MetricsText() const {
  std::vector<prometheus::MetricFamily> families = subject_.metrics.registry().Collect();
  for (const prometheus::Collectable* source :
       std::initializer_list<const prometheus::Collectable*>{&figures_, &process_}) {
    std::ranges::move(source->Collect(), std::back_inserter(families));
  }
  return prometheus::TextSerializer().Serialize(families);
}

void DaemonWatch::NoteStopping() {
  stopping_ = true;
  pulse_->Stop();
}

absl::Status DaemonWatch::Alive() const {
  // How long it may take to stop is for whoever stops it to say.
  return stopping_ ? absl::OkStatus() : pulse_->Alive();
}

absl::Status DaemonWatch::Ready() const {
  if (stopping_) return absl::UnavailableError("stopping");
  FULCRUM_RETURN_IF_ERROR(pulse_->last());
  FULCRUM_RETURN_IF_ERROR(CheckStores(subject_.campaigns));
  return CheckDiskIsWritable(subject_.data_folder);
}

void DaemonWatch::OnBeat(const absl::Status& status) {
  if (status.ok()) NotifyAlive();
  NotifyStatus(status.ok() ? DescribeInOneLine(subject_.campaigns) : std::string(status.message()));
  if (was_well_ && !status.ok()) Log(LogLevel::kError, "no sign of life", {{"reason", std::string(status.message())}});
  if (!was_well_ && status.ok()) Log(LogLevel::kInfo, "well again");
  was_well_ = status.ok();
}

}  // namespace fulcrum::pipeline
