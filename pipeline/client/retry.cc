#include "pipeline/client/retry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/client/call_status.h"
#include "pipeline/error_details.h"

namespace fulcrum::pipeline {

Retrier::Retrier(RetryPolicy policy, Timing timing, std::uint64_t seed, OnTrouble on_trouble)
    : policy_(policy), timing_(std::move(timing)), on_trouble_(std::move(on_trouble)), random_(seed) {}

std::chrono::milliseconds Retrier::Jittered(std::chrono::milliseconds pause) {
  const auto half = pause.count() / 2;
  return std::chrono::milliseconds(
      half + static_cast<std::int64_t>(random_.Below(static_cast<std::uint64_t>(pause.count() - half + 1))));
}

absl::Status Retrier::Call(const Attempt& attempt) {
  const auto end = timing_.now() + policy_.give_up_after;
  auto pause = policy_.first_pause;
  for (bool first = true;; first = false) {
    const absl::Status status = attempt();
    if (!MayPass(status) || timing_.now() >= end) return status;
    if (first && on_trouble_) on_trouble_(status);
    // A server that says when it has time again is not asked before.
    const auto wanted = std::min(RetryDelayOf(status).value_or(std::chrono::milliseconds(0)), policy_.longest_pause);
    if (!timing_.sleep(std::max(Jittered(pause), wanted))) {
      return absl::CancelledError(absl::StrCat("asked to end while the server was away: ", status.message()));
    }
    pause = std::min(2 * pause, policy_.longest_pause);
    ++repeats_;
  }
}

}  // namespace fulcrum::pipeline
