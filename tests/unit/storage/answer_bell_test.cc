#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "storage/commit/commit_queue.h"

namespace fulcrum::storage {
namespace {

TEST(AnswerBellTest, WhatIsAnsweredNeedsNoRing) {
  ReplySignal bell;
  bell.WaitFor(true);
}

// Every round answers a few of many, so that most rings are for others; whoever misses its own would hang the test.
TEST(AnswerBellTest, EveryWaiterWakesForItsOwnAnswer) {
  constexpr std::size_t kWaiters = 8;
  constexpr int kRounds = 2000;
  ReplySignal bell;
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

// Groups that end inside a chain, bells that are shared, waiters who ask at any moment: whoever is left out would hang
// the test.
TEST(AnswerWaiterTest, ThoseWhoAreAnsweredTogetherWakeEachOther) {
  constexpr std::size_t kWaiters = 20;
  constexpr int kRounds = 1000;
  std::array<ReplySignal, kWaiters / 2> bells;
  std::array<std::atomic<ReplyWaiter*>, kWaiters> asking = {};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kWaiters; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        ReplyWaiter waiter(bells[(i + static_cast<std::size_t>(round)) % bells.size()]);
        asking[i] = &waiter;
        waiter.Wait();
      }
    });
  }
  for (std::size_t given = 0; given < kWaiters * kRounds;) {
    const ChainedWakeups chains;
    for (auto& waiter : asking) {
      ReplyWaiter* const asked = waiter.exchange(nullptr);
      if (asked == nullptr) continue;
      asked->Answered();
      ++given;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AnswerWaiterTest, WhoAnswersItselfNeedsNobody) {
  ReplySignal bell;
  ReplyWaiter waiter(bell);
  waiter.Answered();
  waiter.Wait();
}

}  // namespace
}  // namespace fulcrum::storage
