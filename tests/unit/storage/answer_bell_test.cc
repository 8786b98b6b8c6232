#include "storage/answer_bell.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace fulcrum::storage {
namespace {

TEST(AnswerBellTest, WhatIsAnsweredNeedsNoRing) {
  const AnswerBell bell;
  bell.WaitFor(true);
}

// Every round answers a few of many, so that most rings are for others; whoever misses its own would hang the test.
TEST(AnswerBellTest, EveryWaiterWakesForItsOwnAnswer) {
  constexpr std::size_t kWaiters = 8;
  constexpr int kRounds = 2000;
  AnswerBell bell;
  std::array<std::atomic<bool>, kWaiters> answered = {};
  std::array<std::atomic<bool>, kWaiters> asked = {};
  std::vector<std::thread> waiters;
  for (std::size_t i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        asked[i] = true;
        bell.WaitFor(answered[i]);
        answered[i] = false;
      }
    });
  }
  for (std::size_t given = 0; given < kWaiters * kRounds;) {
    for (std::size_t i = 0; i < kWaiters; ++i) {
      if (!asked[i].exchange(false)) continue;
      answered[i] = true;
      ++given;
      if (given % 3 == 0) bell.Ring();
    }
    bell.Ring();
    std::this_thread::yield();
  }
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace fulcrum::storage
