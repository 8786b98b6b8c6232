#include "storage/round_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {
namespace {

bool ShareReached(const RoundPolicy& policy, const RoundProgress& progress) {
  return static_cast<double>(progress.settled) >= policy.soft_share * static_cast<double>(progress.items);
}

}  // namespace

RoundVerdict JudgeRound(const RoundPolicy& policy, const RoundProgress& progress, Time now) {
  if (progress.settled >= progress.items) return {.advance = true, .reason = "all answered"};
  const Time soft_end = progress.started_at + policy.soft_time;
  const Time hard_end = progress.started_at + policy.hard_time;
  const bool has_soft = policy.soft_time.count() > 0;
  const bool has_hard = policy.hard_time.count() > 0;
  if (has_soft && now >= soft_end && ShareReached(policy, progress)) {
    return {.advance = true, .reason = absl::StrCat("soft time: ", progress.settled, " of ", progress.items)};
  }
  if (has_hard && now >= hard_end && progress.labeled >= policy.hard_minimum) {
    return {.advance = true, .reason = absl::StrCat("hard time: ", progress.labeled, " of ", progress.items)};
  }
  RoundVerdict verdict;
  if (has_soft && now < soft_end) verdict.look_again = soft_end;
  if (has_hard && now < hard_end) {
    verdict.look_again = verdict.look_again.has_value() ? std::min(*verdict.look_again, hard_end) : hard_end;
  }
  return verdict;
}

}  // namespace fulcrum::storage
