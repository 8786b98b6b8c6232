// Repeats a call that did not reach the server, with growing pauses that differ from worker to worker.
//
// The pauses matter when a daemon comes back and a thousand workers have waited for it. Thread-safe as far as the given
// functions are; a Retrier belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "stages/core/random.h"

namespace fulcrum::pipeline {

/// The clock and the pauses, so that tests need neither.
struct Timing {
  std::function<std::chrono::steady_clock::time_point()> now;
  /// Waits; false where the wait was broken off because the command should end.
  std::function<bool(std::chrono::milliseconds)> sleep;
  /// Waits to the end, whatever comes.
  std::function<void(std::chrono::milliseconds)> pause;
};

struct RetryPolicy {
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{5'000};  ///< pauses double until then
  std::chrono::milliseconds give_up_after{300'000};
};

class Retrier {
 public:
  using Attempt = std::function<absl::Status()>;
  /// Told before the first pause of a call, for a person who waits.
  using OnTrouble = std::function<void(const absl::Status&)>;

  Retrier(RetryPolicy policy, Timing timing, std::uint64_t seed, OnTrouble on_trouble = {});

  /// Repeats `attempt`, which must do the same each time, while its error MayPass, and not before the time that the
  /// error asks for. Then the last error; Cancelled where
  /// a pause was broken off.
  absl::Status Call(const Attempt& attempt);

  /// Attempts after the first, over all calls.
  std::uint64_t repeats() const { return repeats_; }

 private:
  /// Between half of the full pause and all of it.
  std::chrono::milliseconds Jittered(std::chrono::milliseconds pause);

  const RetryPolicy policy_;
  const Timing timing_;
  const OnTrouble on_trouble_;
  Random random_;
  std::uint64_t repeats_ = 0;
};

}  // namespace fulcrum::pipeline
