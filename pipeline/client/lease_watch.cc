#include "pipeline/client/lease_watch.h"

#include <algorithm>

namespace fulcrum::pipeline {
namespace {

constexpr absl::Duration kShortest = absl::Milliseconds(500);
constexpr absl::Duration kLongest = absl::Seconds(60);
constexpr std::chrono::seconds kPauseAfterTrouble{1};

}  // namespace

void LeaseWatch::Note(absl::Time expires_at, absl::Time wall_now, TimePoint now) {
  const absl::Duration wait = std::clamp((expires_at - wall_now) * 0.4, kShortest, kLongest);
  due_ = std::min(due_, now + absl::ToChronoNanoseconds(wait));
}

void LeaseWatch::TryAgainSoon(TimePoint now) {
  due_ = now + kPauseAfterTrouble;
}

}  // namespace fulcrum::pipeline
