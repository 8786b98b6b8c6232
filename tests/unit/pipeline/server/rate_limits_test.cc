#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "pipeline/server/access_control.h"
#include "pipeline/text/status.h"

namespace fulcrum::pipeline {
namespace {

using std::chrono::milliseconds;

class RateLimitsTest : public ::testing::Test {
 protected:
  int Allowed(const std::string& caller, int calls) {
    int allowed = 0;
    for (int i = 0; i < calls; ++i) allowed += limits_.Count(caller).ok() ? 1 : 0;
    return allowed;
  }

  RateLimits::Clock::time_point now_ = RateLimits::Clock::time_point(std::chrono::hours(1));
  RateLimits limits_{{.calls_a_second = 10, .burst = 5}, [this] { return now_; }};
};

TEST_F(RateLimitsTest, ABurstAndThenTheRate) {
  EXPECT_EQ(Allowed("ada", 20), 5);
  now_ += milliseconds(250);
  EXPECT_EQ(Allowed("ada", 20), 2);
  now_ += milliseconds(50);
  EXPECT_EQ(Allowed("ada", 20), 1);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Allowed("ada", 20), 5);
}

TEST_F(RateLimitsTest, OneCallerDoesNotUseUpAnothers) {
  EXPECT_EQ(Allowed("ada", 20), 5);
  EXPECT_EQ(Allowed("bob", 20), 5);
}

TEST_F(RateLimitsTest, ARefusalSaysWhenToComeBackAndThenItWorks) {
  EXPECT_EQ(Allowed("ada", 5), 5);
  const absl::Status refused = limits_.Count("ada");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const auto delay = RetryDelayOf(refused);
  ASSERT_TRUE(delay.has_value());
  EXPECT_EQ(*delay, milliseconds(100));
  now_ += *delay;
  EXPECT_TRUE(limits_.Count("ada").ok());
}

TEST_F(RateLimitsTest, CallersWhoHaveGoneAreForgotten) {
  for (int caller = 0; caller < 10'000; ++caller) {
    now_ += milliseconds(200);
    EXPECT_TRUE(limits_.Count(absl::StrCat("caller-", caller)).ok());
  }
  EXPECT_LT(limits_.remembered(), 2000u);
}

TEST(RateLimits, WithoutALimitNothingIsCounted) {
  RateLimits limits({});
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(limits.Count("ada").ok());
  EXPECT_EQ(limits.remembered(), 0u);
}

}  // namespace
}  // namespace fulcrum::pipeline
