#include "storage/clock.h"

#include <gtest/gtest.h>

namespace fulcrum::storage {
namespace {

TEST(ClockTest, TimesAreWrittenInUtcToTheMicrosecond) {
  EXPECT_EQ(FormatUtc(FromMicros(0)), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(FormatUtc(FromMicros(1'700'000'000'123'456)), "2023-11-14T22:13:20.123456Z");
  EXPECT_EQ(FormatUtc(FromMicros(-1)), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(ToMicros(FromMicros(INT64_C(1) << 60)), INT64_C(1) << 60);
}

TEST(ClockTest, TheAnchoredClockStartsWithTheWallAndNeverGoesBack) {
  const auto before = std::chrono::system_clock::now();
  const AnchoredClock clock;
  Time last = clock.Now();
  EXPECT_GE(last, std::chrono::floor<std::chrono::microseconds>(before));
  for (int i = 0; i < 10'000; ++i) {
    const Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace fulcrum::storage
