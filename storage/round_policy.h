// When a round is over: all is answered, or a share after a soft time, or a minimum at a hard time.
//
// A pure function of counts and times. Stateless and thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "storage/clock.h"

namespace fulcrum::storage {

struct RoundPolicy {
  /// After this time `soft_share` of the items suffices; zero: no soft time.
  std::chrono::milliseconds soft_time{0};
  double soft_share = 0.9;  ///< in (0, 1]
  /// After this time `hard_minimum` labeled items suffice; zero: no hard time.
  std::chrono::milliseconds hard_time{0};
  std::int64_t hard_minimum = 1;

  bool operator==(const RoundPolicy&) const = default;
};

struct RoundProgress {
  Time started_at = {};
  std::int64_t items = 0;
  std::int64_t labeled = 0;  ///< decided by votes
  std::int64_t settled = 0;  ///< labeled, disputed or set aside: nothing more is expected of them
};

struct RoundVerdict {
  bool advance = false;
  std::string reason = {};              ///< why it advances
  std::optional<Time> look_again = {};  ///< where it does not: when time alone may change that
};

RoundVerdict JudgeRound(const RoundPolicy& policy, const RoundProgress& progress, Time now);

}  // namespace fulcrum::storage
