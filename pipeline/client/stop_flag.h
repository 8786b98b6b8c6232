// How a client command learns that it should end: Ctrl-C, SIGTERM or SIGHUP, or a test.
//
// StopFlag is thread-safe and may be raised from a signal handler. At most one StopOnSignals at a time.
#pragma once

#include <atomic>
#include <chrono>

namespace fulcrum::pipeline {

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
