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

TEST(MemoryBudgetShare, ACampaignThatExistsHasAPlaceAlsoIfItsRoundsDoNotFitAnyMore) {
  MemoryBudgetShare allowance(1000 * kMegabyte);
  const MemoryBudgetShare::Request moved{
      .campaign = "moved", .pool_bytes = 200 * kMegabyte, .round_bytes = 2000 * kMegabyte, .exists = true};
  auto place = allowance.Admit(moved);
  ASSERT_TRUE(place.ok()) << place.status();
  const absl::Status begun = allowance.BeginRound(*place, {});
  EXPECT_EQ(begun.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(begun.message()),
              AllOf(HasSubstr("'moved' may use 2000 MB"), HasSubstr("lower selection.memory_mib")));
  // The others do not have to leave room for what cannot run.
  auto other = Admit(allowance, "other", 300, 250);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(allowance.BeginRound(*other, {}).ok());
  EXPECT_EQ(allowance.CheckRound("moved", 600 * kMegabyte, *place).code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(allowance.CheckRound("moved", 250 * kMegabyte, *place).ok());
  allowance.SetRound(250 * kMegabyte, *place);
  EXPECT_TRUE(allowance.BeginRound(*place, {}).ok());
  EXPECT_FALSE(
      allowance.Admit({.campaign = "third", .pool_bytes = 501 * kMegabyte, .round_bytes = kMegabyte, .exists = true})
          .ok())
      << "a pool that does not fit is refused whether it exists or not";
}

TEST(MemoryBudgetShare, TellsForWhomARoundWaits) {
  MemoryBudgetShare allowance(1000 * kMegabyte);
  auto first = Admit(allowance, "first", 100, 500), second = Admit(allowance, "second", 100, 500),
       third = Admit(allowance, "third", 100, 500);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  ASSERT_TRUE(allowance.BeginRound(*first, {}).ok());
  EXPECT_TRUE(allowance.WaitsFor(*first).empty());
  std::stop_source stop;
  std::jthread waiter([&] { EXPECT_TRUE(absl::IsCancelled(allowance.BeginRound(*second, stop.get_token()))); });
  while (allowance.WaitsFor(*second).empty()) std::this_thread::yield();
  EXPECT_THAT(allowance.WaitsFor(*second), ::testing::ElementsAre("first"));
  std::jthread behind([&] { EXPECT_TRUE(allowance.BeginRound(*third, {}).ok()); });
  while (allowance.WaitsFor(*third).empty()) std::this_thread::yield();
  EXPECT_THAT(allowance.WaitsFor(*third), ::testing::ElementsAre("first", "second"));
  // Who is stopped leaves the line.
  stop.request_stop();
  waiter.join();
  EXPECT_THAT(allowance.WaitsFor(*third), ::testing::ElementsAre("first"));
  allowance.EndRound(*first);
  allowance.GiveBack(*first);
}

}  // namespace
}  // namespace fulcrum::pipeline
