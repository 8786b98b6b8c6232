#include "pipeline/operation/watchdog.h"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "pipeline/operation/probes.h"
#include "pipeline/text/structured_log.h"
#include "prometheus/text_serializer.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// A machine that is busy for a moment is not unhealthy.
constexpr int kMissedBeats = 4;

}  // namespace

Heartbeat::Heartbeat(std::vector<Probe> probes, std::chrono::milliseconds period,
                     std::function<void(const absl::Status&)> on_beat)
    : probes_(std::move(probes)),
      period_(period),
      on_beat_(std::move(on_beat)),
      last_good_(Clock::now()),
      thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

Heartbeat::~Heartbeat() {
  Stop();
}

void Heartbeat::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status Heartbeat::last() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

absl::Status Heartbeat::Alive() const {
  const std::scoped_lock lock(mutex_);
  // The thread itself may hang in a probe, so the time of the last healthy heartbeat decides.
  if (Clock::now() - last_good_ <= kMissedBeats * period_) return absl::OkStatus();
  if (!last_.ok()) return last_;
  return absl::UnavailableError("a part of the daemon has not answered for some time");
}

absl::Status Heartbeat::Beat() const {
  for (const Probe& probe : probes_) {
    if (const absl::Status status = probe.ask(period_); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(probe.name, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

void Heartbeat::Loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const absl::Status status = Beat();
    {
      const std::scoped_lock lock(mutex_);
      last_ = status;
      if (status.ok()) last_good_ = Clock::now();
    }
    on_beat_(status);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, period_, [] { return false; });
  }
}

namespace {

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

HttpAnswer AnswerOf(const absl::Status& status) {
  if (status.ok()) return {.body = "ok\n"};
  return {.code = 503, .body = absl::StrCat(status.message(), "\n")};
}

/// One late heartbeat is still in time for the watchdog.
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
  watch->StartHeartbeat(PeriodFor(options.heartbeat));
  if (options.address.empty()) return watch;
  DaemonWatch& it = *watch;
  auto http = HttpServer::Start(
      options.address,
      {{"/metrics", {.answer = [&it] { return HttpAnswer{.type = kMetricsType, .body = it.MetricsText()}; }}},
       {"/healthz", {.answer = [&it] { return AnswerOf(it.Alive()); }, .urgent = true}},
       {"/readyz", {.answer = [&it] { return it.Readiness(); }}}});
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

void DaemonWatch::StartHeartbeat(std::chrono::milliseconds period) {
  std::vector<Probe> probes = {ListenerProbe(subject_.grpc_address, subject_.server.port(), subject_.tls),
                               CallProbe(subject_.server), StoreProbe(subject_.campaigns)};
  heartbeat_ =
      std::make_unique<Heartbeat>(std::move(probes), period, [this](const absl::Status& status) { OnBeat(status); });
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
  heartbeat_->Stop();
}

absl::Status DaemonWatch::Alive() const {
  // The caller that stops the daemon decides how long stopping may take.
  return stopping_ ? absl::OkStatus() : heartbeat_->Alive();
}

absl::Status DaemonWatch::Ready() const {
  if (stopping_) return absl::UnavailableError("stopping");
  FULCRUM_RETURN_IF_ERROR(heartbeat_->last());
  FULCRUM_RETURN_IF_ERROR(CheckStores(subject_.campaigns));
  return CheckDiskIsWritable(subject_.data_folder);
}

HttpAnswer DaemonWatch::Readiness() const {
  HttpAnswer answer = AnswerOf(Ready());
  if (!stopping_) answer.body += DescribeProblems(subject_.campaigns);
  return answer;
}

void DaemonWatch::OnBeat(const absl::Status& status) {
  if (status.ok()) NotifyAlive();
  NotifyStatus(status.ok() ? DescribeInOneLine(subject_.campaigns) : std::string(status.message()));
  if (was_healthy_ && !status.ok())
    Log(LogLevel::kError, "heartbeat failed", {{"reason", std::string(status.message())}});
  if (!was_healthy_ && status.ok()) Log(LogLevel::kInfo, "heartbeat recovered");
  was_healthy_ = status.ok();
}

namespace {

// A lost notification is not an error: the manager's own timeout applies.
void Notify(const std::string& state) {
  (void)sd_notify(/*unset_environment=*/0, state.c_str());
}

}  // namespace

void NotifyReady() {
  Notify("READY=1");
}

void NotifyStopping(std::chrono::milliseconds within) {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(within).count();
  Notify(absl::StrCat("STOPPING=1\nEXTEND_TIMEOUT_USEC=", microseconds));
}

void NotifyStatus(const std::string& text) {
  Notify(absl::StrCat("STATUS=", absl::StrReplaceAll(text, {{"\n", " "}})));
}

void NotifyAlive() {
  Notify("WATCHDOG=1");
}

std::optional<std::chrono::microseconds> WatchdogTime() {
  std::uint64_t microseconds = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &microseconds) <= 0) return std::nullopt;
  return std::chrono::microseconds(microseconds);
}

}  // namespace fulcrum::pipeline
