#include "storage/clock.h"

#include <cstdio>
#include <ctime>

namespace fulcrum::storage {

std::string FormatUtc(Time time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t whole = std::chrono::system_clock::to_time_t(seconds);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char date[32];
  const std::size_t size = std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts);
  char fraction[16];
  std::snprintf(fraction, sizeof(fraction), ".%06dZ", static_cast<int>((time - seconds).count()));
  return std::string(date, size) + fraction;
}

AnchoredClock::AnchoredClock()
    : wall_(std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now())),
      steady_(std::chrono::steady_clock::now()) {}

Time AnchoredClock::Now() const {
  return wall_ + std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - steady_);
}

}  // namespace fulcrum::storage
