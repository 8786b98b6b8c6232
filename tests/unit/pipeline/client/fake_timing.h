// A clock that moves only when somebody waits.
#pragma once

#include <chrono>
#include <limits>
#include <vector>

#include "pipeline/client/server_connection.h"

namespace fulcrum::testing {

struct FakeTiming {
  std::chrono::milliseconds elapsed{0};
  std::vector<std::chrono::milliseconds> pauses = {};  ///< that were not zero
  int sleeps_left = std::numeric_limits<int>::max();   ///< then the command is asked to end

  /// Refers to this object.
  pipeline::Timing timing() {
    const auto wait = [this](std::chrono::milliseconds time) {
      elapsed += time;
      if (time.count() > 0) pauses.push_back(time);
    };
    return {.now = [this] { return std::chrono::steady_clock::time_point() + std::chrono::hours(1) + elapsed; },
            .sleep =
                [this, wait](std::chrono::milliseconds time) {
                  if (sleeps_left <= 0) return false;
                  if (time.count() > 0) --sleeps_left;
                  wait(time);
                  return true;
                },
            .pause = wait};
  }
};

}  // namespace fulcrum::testing
