#include <gtest/gtest.h>

#include "storage/state/campaign_settings.h"

namespace fulcrum::storage {
namespace {

using std::chrono::minutes;

constexpr Time kStart = FromMicros(1'000'000'000);
constexpr RoundPolicy kPolicy{.soft_time = minutes(10), .soft_share = 0.8, .hard_time = minutes(30), .hard_minimum = 2};

RoundVerdict Judge(std::int64_t labeled, std::int64_t settled, minutes after, const RoundPolicy& policy = kPolicy) {
  return JudgeRound(policy, {.started_at = kStart, .items = 10, .labeled = labeled, .settled = settled},
                    kStart + after);
}

TEST(RoundPolicyTest, AllAnsweredAdvancesAtOnce) {
  EXPECT_TRUE(Judge(10, 10, minutes(0)).advance);
  EXPECT_TRUE(Judge(3, 10, minutes(0)).advance);
  EXPECT_FALSE(Judge(9, 9, minutes(0)).advance);
}

TEST(RoundPolicyTest, AShareSufficesAfterTheSoftTime) {
  EXPECT_FALSE(Judge(8, 8, minutes(9)).advance);
  EXPECT_TRUE(Judge(8, 8, minutes(10)).advance);
  EXPECT_FALSE(Judge(7, 7, minutes(10)).advance);
}

TEST(RoundPolicyTest, AMinimumSufficesAtTheHardTime) {
  EXPECT_FALSE(Judge(2, 2, minutes(29)).advance);
  EXPECT_TRUE(Judge(2, 2, minutes(30)).advance);
  EXPECT_FALSE(Judge(1, 5, minutes(300)).advance);
}

TEST(RoundPolicyTest, SaysWhenToLookAgain) {
  EXPECT_EQ(Judge(0, 0, minutes(1)).look_again, kStart + minutes(10));
  EXPECT_EQ(Judge(0, 0, minutes(10)).look_again, kStart + minutes(30));
  EXPECT_EQ(Judge(0, 0, minutes(31)).look_again, std::nullopt);
}

TEST(RoundPolicyTest, WithoutTimesOnlyAllAnsweredAdvances) {
  const RoundVerdict verdict = Judge(9, 9, minutes(100000), RoundPolicy{});
  EXPECT_FALSE(verdict.advance);
  EXPECT_EQ(verdict.look_again, std::nullopt);
}

}  // namespace
}  // namespace fulcrum::storage
