// Prints benchmark figures as ratios to a reference measured in the same run, because absolute times vary between
// machines.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>

namespace fulcrum::benchmarks {

/// Returns the seconds of the fastest of `repeats` runs, which is the least disturbed one.
inline double FastestSeconds(int repeats, const std::function<void()>& body) {
  double fastest = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    body();
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fastest;
}

/// Returns the processor seconds of this process so far, over all threads.
inline double ProcessorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Returns the processor seconds of the fastest of `repeats` runs. For single-threaded comparisons: other programs on
/// the machine affect processor time far less than elapsed time.
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

/// Targets that were missed so far.
inline int& MissedTargets() {
  static int missed = 0;
  return missed;
}

/// The exit code of a benchmark: 1 if a target was missed.
inline int ExitCode() {
  return MissedTargets() == 0 ? 0 : 1;
}

/// "met" or "MISSED", which is counted.
inline const char* NoteTarget(bool met) {
  if (!met) ++MissedTargets();
  return met ? "met" : "MISSED";
}

/// Prints one line: the name, the measured value, its target, and whether the target is met.
inline void PrintAtLeast(const char* what, double value, double bar, const char* unit = "x") {
  std::printf("  %-62s %9.3g %-5s bar >= %-8.3g %s\n", what, value, unit, bar, NoteTarget(value >= bar));
}

inline void PrintAtMost(const char* what, double value, double bar, const char* unit = "") {
  std::printf("  %-62s %9.3g %-5s bar <= %-8.3g %s\n", what, value, unit, bar, NoteTarget(value <= bar));
}

inline void PrintFigure(const char* what, double value, const char* unit) {
  std::printf("  %-62s %9.4g %s\n", what, value, unit);
}

}  // namespace fulcrum::benchmarks
