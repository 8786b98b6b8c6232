#include "pipeline/operation/pulse.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

// A machine that is busy for a moment is not dead.
constexpr int kMissedBeats = 4;

}  // namespace

Pulse::Pulse(std::vector<Probe> probes, std::chrono::milliseconds period,
             std::function<void(const absl::Status&)> on_beat)
    : probes_(std::move(probes)),
      period_(period),
      on_beat_(std::move(on_beat)),
      last_good_(Clock::now()),
      thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

Pulse::~Pulse() {
  Stop();
}

void Pulse::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status Pulse::last() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}

absl::Status Pulse::Alive() const {
  const std::scoped_lock lock(mutex_);
  // The thread itself may hang in a probe: what counts is when all was well for the last time.
  if (Clock::now() - last_good_ <= kMissedBeats * period_) return absl::OkStatus();
  if (!last_.ok()) return last_;
  return absl::UnavailableError("a part of the daemon has not answered for some time");
}

absl::Status Pulse::Beat() const {
  for (const Probe& probe : probes_) {
    if (const absl::Status status = probe.ask(period_); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(probe.name, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

void Pulse::Loop(const std::stop_token& stop) {
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

}  // namespace fulcrum::pipeline
