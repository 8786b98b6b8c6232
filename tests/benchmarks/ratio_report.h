// Prints benchmark figures as ratios against a peer measured in the same run, since machines are noisy.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>

namespace fulcrum::benchmarks {

/// Seconds of the fastest of `repeats` runs: the least disturbed one.
inline double FastestSeconds(int repeats, const std::function<void()>& body) {
  double fastest = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    body();
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fastest;
}

/// Processor seconds that this process has taken so far, all threads together.
inline double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor seconds of the fastest of `repeats` runs. For comparisons on one thread: other programs on the machine
/// disturb them far less than they disturb the clock on the wall.
inline double FastestCpuSeconds(int repeats, const std::function<void()>& body) {
  double fastest = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double start = ProcessorSeconds();
    body();
    fastest = std::min(fastest, ProcessorSeconds() - start);
  }
  return fastest;
}

inline void PrintHeading(const char* title) {
  std::printf("\n%s\n", title);
}

/// One line: what, the measured value, the bar it should reach, and whether it does.
inline void PrintAtLeast(const char* what, double value, double bar, const char* unit = "x") {
  std::printf("  %-62s %9.3g %-5s bar >= %-8.3g %s\n", what, value, unit, bar, value >= bar ? "met" : "MISSED");
}

inline void PrintAtMost(const char* what, double value, double bar, const char* unit = "") {
  std::printf("  %-62s %9.3g %-5s bar <= %-8.3g %s\n", what, value, unit, bar, value <= bar ? "met" : "MISSED");
}

inline void PrintFigure(const char* what, double value, const char* unit) {
  std::printf("  %-62s %9.4g %s\n", what, value, unit);
}

}  // namespace fulcrum::benchmarks
