#include "pipeline/client/wall_timing.h"

#include <thread>

#include "pipeline/client/stop_flag.h"

namespace fulcrum::pipeline {

Timing WallTiming(const StopFlag& stop) {
  return {.now = [] { return std::chrono::steady_clock::now(); },
          .sleep = [&stop](std::chrono::milliseconds time) { return stop.Sleep(time); },
          .pause = [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }};
}

}  // namespace fulcrum::pipeline
