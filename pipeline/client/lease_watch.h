// When leases should be renewed, from what is known of how long they last.
//
// The server's clock decides and may differ from ours, so leases are renewed well before half of their time has gone by
// and at least once a minute. Not thread-safe.
#pragma once

#include <chrono>
#include <vector>

#include "absl/time/time.h"
#include "pipeline/client/labeling_calls.h"

namespace fulcrum::pipeline {

class LeaseWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Leases were given or renewed just now, until `expires_at` by the server's clock; `wall_now` is by ours.
  void Note(absl::Time expires_at, absl::Time wall_now, TimePoint now);
  /// Whether it is time to renew.
  bool IsDue(TimePoint now) const { return now >= due_; }
  /// A renewal did not get through.
  void TryAgainSoon(TimePoint now);
  /// Nothing is held.
  void Clear() { due_ = TimePoint::max(); }

 private:
  TimePoint due_ = TimePoint::max();
};

}  // namespace fulcrum::pipeline
