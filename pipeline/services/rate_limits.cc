#include "pipeline/services/rate_limits.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "pipeline/error_details.h"

namespace fulcrum::pipeline {

double RateLimits::CallsAt(const Bucket& bucket, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - bucket.at).count();
  return std::min(limit_.burst, bucket.calls + seconds * limit_.calls_a_second);
}

void RateLimits::ForgetFull(Clock::time_point now) {
  if (buckets_.size() < look_again_at_) return;
  std::erase_if(buckets_, [&](const auto& entry) { return CallsAt(entry.second, now) >= limit_.burst; });
  look_again_at_ = std::max<std::size_t>(1024, 2 * buckets_.size());
}

absl::Status RateLimits::Count(const std::string& caller) {
  if (limit_.calls_a_second <= 0) return absl::OkStatus();
  const Clock::time_point now = now_();
  const std::scoped_lock lock(mutex_);
  ForgetFull(now);
  Bucket& bucket = buckets_.try_emplace(caller, Bucket{limit_.burst, now}).first->second;
  bucket.calls = CallsAt(bucket, now);
  bucket.at = now;
  if (bucket.calls >= 1) {
    bucket.calls -= 1;
    return absl::OkStatus();
  }
  const auto wait = std::chrono::milliseconds(
      static_cast<std::int64_t>(std::ceil(1000 * (1 - bucket.calls) / limit_.calls_a_second)));
  return WithRetryDelay(absl::ResourceExhaustedError(absl::StrFormat(
                            "'%s' calls more than %g times a second; try again in %d ms, or take more tasks at a time",
                            caller, limit_.calls_a_second, wait.count())),
                        wait);
}

std::size_t RateLimits::remembered() const {
  const std::scoped_lock lock(mutex_);
  return buckets_.size();
}

}  // namespace fulcrum::pipeline
