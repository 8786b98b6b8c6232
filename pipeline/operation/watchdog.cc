#include "pipeline/operation/watchdog.h"

#include <malloc.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "pipeline/text/structured_log.h"
#include "prometheus/text_serializer.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

// A machine that is busy for a moment is not unhealthy.
constexpr int kMissedBeats = 4;
// Less than this is soon used again.
constexpr std::size_t kMostFreeBytes = std::size_t{16} << 20;

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

/// What there is to monitor once the daemon serves.
struct DaemonWatch::Attached {
  Attached(const Subject& subject, std::chrono::milliseconds period, std::function<void(const absl::Status&)> on_beat)
      : campaigns(subject.campaigns),
        figures(subject.campaigns, subject.queues),
        heartbeat({ListenerProbe(subject.grpc_address, subject.server.port(), subject.tls), CallProbe(subject.server),
                   StoreProbe(subject.campaigns)},
                  period, std::move(on_beat)) {}

  const CampaignRegistry& campaigns;
  const DaemonFigures figures;
  Heartbeat heartbeat;  // last: its thread uses the campaigns
};

DaemonWatch::DaemonWatch(std::string data_folder, const DaemonMetrics& metrics, std::chrono::milliseconds period)
    : data_folder_(std::move(data_folder)), metrics_(metrics), period_(period) {}

DaemonWatch::~DaemonWatch() = default;

absl::StatusOr<std::unique_ptr<DaemonWatch>> DaemonWatch::Start(const WatchOptions& options, std::string data_folder,
                                                                const DaemonMetrics& metrics) {
  std::unique_ptr<DaemonWatch> watch(new DaemonWatch(std::move(data_folder), metrics, PeriodFor(options.heartbeat)));
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

void DaemonWatch::Attach(Subject subject) {
  owned_ = std::make_unique<Attached>(
      subject, period_,
      [this, &campaigns = subject.campaigns](const absl::Status& status) { OnBeat(campaigns, status); });
  attached_ = owned_.get();
}

std::string DaemonWatch::MetricsText() const {
  std::vector<prometheus::MetricFamily> families = metrics_.registry().Collect();
  std::ranges::move(process_.Collect(), std::back_inserter(families));
  if (const Attached* const attached = attached_) {
    std::ranges::move(attached->figures.Collect(), std::back_inserter(families));
  }
  return prometheus::TextSerializer().Serialize(families);
}

void DaemonWatch::NoteStopping() {
  stopping_ = true;
  if (owned_) owned_->heartbeat.Stop();
}

absl::Status DaemonWatch::Alive() const {
  // The caller that stops the daemon decides how long stopping may take.
  const Attached* const attached = attached_;
  return stopping_ || attached == nullptr ? absl::OkStatus() : attached->heartbeat.Alive();
}

absl::Status DaemonWatch::Ready() const {
  if (stopping_) return absl::UnavailableError("stopping");
  const Attached* const attached = attached_;
  if (attached == nullptr) return absl::UnavailableError("starting: campaigns are being opened");
  FULCRUM_RETURN_IF_ERROR(attached->heartbeat.last());
  FULCRUM_RETURN_IF_ERROR(CheckStores(attached->campaigns));
  return CheckDiskIsWritable(data_folder_);
}

HttpAnswer DaemonWatch::Readiness() const {
  HttpAnswer answer = AnswerOf(Ready());
  const Attached* const attached = attached_;
  if (!stopping_ && attached != nullptr) answer.body += DescribeProblems(attached->campaigns);
  return answer;
}

void DaemonWatch::OnBeat(const CampaignRegistry& campaigns, const absl::Status& status) {
  if (status.ok()) NotifyAlive();
  NotifyStatus(status.ok() ? DescribeInOneLine(campaigns) : std::string(status.message()));
  if (was_healthy_ && !status.ok())
    Log(LogLevel::kError, "heartbeat failed", {{"reason", std::string(status.message())}});
  if (!was_healthy_ && status.ok()) Log(LogLevel::kInfo, "heartbeat recovered");
  was_healthy_ = status.ok();
  ReturnFreeMemory();
}

void ReturnFreeMemory() {
  std::size_t all = 0, resident = 0, shared = 0;  // in pages
  std::ifstream("/proc/self/statm") >> all >> resident >> shared;
  const struct mallinfo2 heap = mallinfo2();
  const std::size_t own = (resident - std::min(resident, shared)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // Pages that were returned before are free in the heap and not resident, so the heap alone does not tell.
  if (own > heap.uordblks + heap.hblkhd + kMostFreeBytes) malloc_trim(0);
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

namespace {

// Calls and rounds that react to being cancelled need less.
constexpr std::chrono::milliseconds kShortestLimit{1'000};
// For the last line of the log.
constexpr std::chrono::milliseconds kLogTime{100};

}  // namespace

ExitTimer::ExitTimer(std::chrono::milliseconds limit, int exit_code)
    : limit_(std::max(limit, kShortestLimit)),
      thread_([this, exit_code, at = std::chrono::steady_clock::now() + limit_](const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        never_.wait_until(lock, stop, at, [] { return false; });
        if (stop.stop_requested()) return;
        // The log may be what hangs.
        std::thread([] { Log(LogLevel::kError, "exit forced: the daemon did not stop in time"); }).detach();
        std::this_thread::sleep_for(kLogTime);
        _exit(exit_code);
      }) {}

}  // namespace fulcrum::pipeline
