// How often one caller may call: a bucket of calls that fills steadily, for each by name.
//
// Buckets that are full again are forgotten, so that memory follows those who call now. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"

namespace fulcrum::pipeline {

struct RateLimit {
  double calls_a_second = 0;  ///< 0: no limit
  double burst = 0;           ///< calls at once, after a pause
};

class RateLimits {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateLimits(RateLimit limit, std::function<Clock::time_point()> now = Clock::now)
      : limit_(limit), now_(std::move(now)) {}

  /// Counts a call. ResourceExhausted, with the time to wait in its details, where there were too many.
  absl::Status Count(const std::string& caller);
  /// Callers that are remembered.
  std::size_t remembered() const;

 private:
  struct Bucket {
    double calls = 0;  ///< left, as of `at`
    Clock::time_point at = {};
  };

  double CallsAt(const Bucket& bucket, Clock::time_point now) const;
  void ForgetFull(Clock::time_point now);

  const RateLimit limit_;
  const std::function<Clock::time_point()> now_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t look_again_at_ = 1024;
};

}  // namespace fulcrum::pipeline
