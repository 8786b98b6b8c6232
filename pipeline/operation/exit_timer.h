// Ends the process after a time, whatever else hangs: a stage, a handler, a disk, or a reader of the log who has
// stopped reading.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
