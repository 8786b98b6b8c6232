// Whether the daemon really works: asks each of its parts for a sign of life, again and again.
//
// A thread asks the probes one after the other; a beat is good when all of them answered. Whoever restarts a daemon
// that hangs (systemd's watchdog, an orchestrator's liveness probe) goes by good beats, so a deadlock, a writer that
// waits for a dead disk or a deaf listener ends the process instead of the patience of its users. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace fulcrum::pipeline {

/// One part of the daemon. `ask` must return within about the given time.
struct Probe {
  std::string name = {};
  std::function<absl::Status(std::chrono::milliseconds patience)> ask = {};
};

class Pulse {
 public:
  using Clock = std::chrono::steady_clock;

  /// `on_beat` is called on the pulse's thread after every beat, with what was wrong or OK.
  Pulse(std::vector<Probe> probes, std::chrono::milliseconds period, std::function<void(const absl::Status&)> on_beat);
  /// Stops, where that was not done.
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

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

}  // namespace fulcrum::pipeline
