#include "pipeline/campaign/memory_allowance.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

TEST(MemoryAllowance, WhatPoolsLeaveIsSharedEqually) {
  MemoryAllowance allowance(1000 * kMegabyte);
  auto first = allowance.Admit("first", 200 * kMegabyte);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(allowance.RoundBytes(), 800 * kMegabyte);
  {
    const auto second = allowance.Admit("second", 100 * kMegabyte);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(allowance.RoundBytes(), 350 * kMegabyte);
  }
  EXPECT_EQ(allowance.RoundBytes(), 800 * kMegabyte) << "a campaign that goes gives its share back";
  const MemoryAllowance::Place moved = *std::move(first);
  EXPECT_EQ(allowance.RoundBytes(), 800 * kMegabyte) << "a place that was moved is still the same one";
}

TEST(MemoryAllowance, APoolThatDoesNotFitIsRefusedWithTheReason) {
  MemoryAllowance allowance(1000 * kMegabyte);
  const auto first = allowance.Admit("first", 600 * kMegabyte);
  ASSERT_TRUE(first.ok());
  const auto second = allowance.Admit("second", 380 * kMegabyte);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("'second' takes 380 MB"), HasSubstr("memory_budget is 1000 MB")));
  EXPECT_EQ(allowance.RoundBytes(), 400 * kMegabyte) << "who was refused takes nothing";
}

TEST(MemoryAllowance, NoBudgetIsNoLimit) {
  MemoryAllowance allowance(0);
  const auto place = allowance.Admit("any", 1'000'000 * kMegabyte);
  EXPECT_TRUE(place.ok());
  EXPECT_EQ(allowance.RoundBytes(), 0u);
}

}  // namespace
}  // namespace fulcrum::pipeline
