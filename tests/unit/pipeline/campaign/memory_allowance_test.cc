#include "pipeline/campaign/memory_allowance.h"

#include <future>
#include <optional>
#include <stop_token>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

absl::StatusOr<MemoryBudgetShare::Place> Admit(MemoryBudgetShare& allowance, const std::string& campaign,
                                               std::size_t pool_megabytes, std::size_t round_megabytes,
                                               std::function<void()> on_wanted = {}) {
  return allowance.Admit({.campaign = campaign,
                          .pool_bytes = pool_megabytes * kMegabyte,
                          .round_bytes = round_megabytes * kMegabyte,
                          .on_wanted = std::move(on_wanted)});
}

TEST(MemoryBudgetShare, WhatARoundGetsDoesNotDependOnTheOthers) {
  MemoryBudgetShare allowance(1000 * kMegabyte);
  EXPECT_EQ(allowance.UsualRoundBytes(), 250 * kMegabyte);
  const auto first = Admit(allowance, "first", 500, 250);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(allowance.UsualRoundBytes(), 250 * kMegabyte);
  EXPECT_EQ(MemoryBudgetShare(kMegabyte).UsualRoundBytes(), MemoryBudgetShare::kLeastRoundBytes);
}

TEST(MemoryBudgetShare, APoolThatDoesNotFitBesideTheLargestRoundIsRefusedWithTheReason) {
  MemoryBudgetShare allowance(1000 * kMegabyte);
  auto first = Admit(allowance, "first", 400, 300);
  ASSERT_TRUE(first.ok());
  const auto second = Admit(allowance, "second", 301, 100);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr("'second' takes 301 MB"), HasSubstr("memory_budget is 1000 MB"),
                    HasSubstr("300 MB must be left for a round")));
  EXPECT_TRUE(Admit(allowance, "second", 300, 100).ok()) << "who was refused takes nothing";
  first = absl::NotFoundError("gone");
  EXPECT_TRUE(Admit(allowance, "second", 900, 100).ok()) << "who goes gives its place back";
}

TEST(MemoryBudgetShare, APoolGrowsAsFarAsThereIsRoom) {
  MemoryBudgetShare allowance(1000 * kMegabyte);
  auto first = Admit(allowance, "first", 200, 100);
  const auto second = Admit(allowance, "second", 200, 100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(allowance.Grow("first", 701 * kMegabyte, *first).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(allowance.Grow("first", 700 * kMegabyte, *first).ok());
  EXPECT_FALSE(Admit(allowance, "third", 1, 100).ok());
}

TEST(MemoryBudgetShare, NoBudgetIsNoLimit) {
  MemoryBudgetShare allowance(0);
  EXPECT_EQ(allowance.UsualRoundBytes(), 0u);
  auto first = Admit(allowance, "first", 1'000'000, 1'000'000), second = Admit(allowance, "second", 1, 1'000'000);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(allowance.BeginRound(*first, {}).ok());
  EXPECT_TRUE(allowance.BeginRound(*second, {}).ok());
}

TEST(MemoryBudgetShare, RoundsThatFitRunAtTheSameTime) {
  MemoryBudgetShare allowance(1000 * kMegabyte);
  auto first = Admit(allowance, "first", 100, 400), second = Admit(allowance, "second", 100, 400);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(allowance.BeginRound(*first, {}).ok());
  EXPECT_TRUE(allowance.BeginRound(*second, {}).ok());
}

TEST(MemoryBudgetShare, ARoundThatDoesNotFitWaitsForTheOthersEndAndTakesWhatItKept) {
  MemoryBudgetShare allowance(1000 * kMegabyte);
  std::promise<void> wanted;
  bool asked = false;
  auto first = Admit(allowance, "first", 100, 500, [&] {
    if (!std::exchange(asked, true)) wanted.set_value();
  });
  auto second = Admit(allowance, "second", 100, 500);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(allowance.BeginRound(*first, {}).ok());
  std::atomic<bool> entered = false;
  std::jthread waiter([&] {
    EXPECT_TRUE(allowance.BeginRound(*second, {}).ok());
    entered = true;
  });
  allowance.EndRound(*first);
  wanted.get_future().wait();
  EXPECT_FALSE(entered) << "what the first keeps is still there";
  allowance.GiveBack(*first);
  waiter.join();
  EXPECT_TRUE(entered);
  // The other way round: what the second keeps is asked for, and nobody is there to give it.
  std::stop_source stop;
  stop.request_stop();
  allowance.EndRound(*second);
  EXPECT_EQ(allowance.BeginRound(*first, stop.get_token()).code(), absl::StatusCode::kCancelled);
  second = absl::NotFoundError("gone");
  EXPECT_TRUE(allowance.BeginRound(*first, {}).ok());
}

}  // namespace
}  // namespace fulcrum::pipeline
