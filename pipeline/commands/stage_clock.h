// Seconds a command spends in each of its stages. Not thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/round.h"

namespace fulcrum::pipeline {

class StageClock {
 public:
  /// Runs `body` and books its time under `stage`; returns what it returns.
  template <typename Body>
  auto Measure(std::string stage, const Body& body) {
    const Clock::time_point start = Clock::now();
    auto result = body();
    seconds_.push_back({std::move(stage), SecondsSince(start)});
    return result;
  }

  /// Books the times of stages that were measured elsewhere.
  void Add(const std::vector<StageSeconds>& seconds) {
    seconds_.insert(seconds_.end(), seconds.begin(), seconds.end());
  }

  const std::vector<StageSeconds>& seconds() const { return seconds_; }
  double TotalSeconds() const { return SecondsSince(start_); }

 private:
  using Clock = std::chrono::steady_clock;
  static double SecondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Clock::time_point start_ = Clock::now();
  std::vector<StageSeconds> seconds_;
};

}  // namespace fulcrum::pipeline
