#include "pipeline/operation/exit_timer.h"

#include <unistd.h>

#include <algorithm>
#include <stop_token>

#include "pipeline/text/structured_log.h"

namespace fulcrum::pipeline {
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
