// Time as the store counts it: microseconds of wall time.
//
// The store takes its time from a Clock that is given to it, so that tests can make time pass and jump. Clocks are
// thread-safe. The program's own, AnchoredClock, reads the wall once and then counts steadily: a wall clock that is set
// while the process runs neither ends a lease early nor keeps it alive.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fulcrum::storage {

using Time = std::chrono::sys_time<std::chrono::microseconds>;

constexpr std::int64_t ToMicros(Time time) {
  return time.time_since_epoch().count();
}
constexpr Time FromMicros(std::int64_t micros) {
  return Time(std::chrono::microseconds(micros));
}

/// "2026-11-16T03:39:52.000123Z"
std::string FormatUtc(Time time);

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class AnchoredClock final : public Clock {
 public:
  AnchoredClock();
  Time Now() const override;

 private:
  const Time wall_;
  const std::chrono::steady_clock::time_point steady_;
};

}  // namespace fulcrum::storage
