// A clock that tests set, forwards and backwards. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "storage/clock.h"

namespace fulcrum::testing {

class ManualClock final : public storage::Clock {
 public:
  storage::Time Now() const override { return storage::FromMicros(now_us_.load()); }
  void Set(storage::Time time) { now_us_ = storage::ToMicros(time); }
  void Advance(std::chrono::microseconds time) { now_us_ += time.count(); }

 private:
  std::atomic<std::int64_t> now_us_{1'700'000'000'000'000};
};

}  // namespace fulcrum::testing
