#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <numeric>
#include <stdexcept>

#include "pipeline/server/executor.h"

namespace fulcrum::pipeline {
namespace {

TEST(Executor, ATaskThatThrowsEndsNeitherTheProcessNorTheThread) {
  std::promise<void> ran;
  {
    Executor executor(1, 10);
    ASSERT_TRUE(executor.Submit([] { throw std::runtime_error("a fault in a task"); }));
    ASSERT_TRUE(executor.Submit([&ran] { ran.set_value(); }));
  }
  EXPECT_EQ(ran.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

TEST(ReplySender, SendsInOrderOnAnotherThreadWhileOneIsBeingSent) {
  std::promise<void> entered, gate;
  std::vector<int> sent;
  std::thread::id sender;
  {
    ReplySender replies;
    replies.Post([&] {
      entered.set_value();
      gate.get_future().wait();
      sender = std::this_thread::get_id();
    });
    entered.get_future().wait();
    // Posting does not wait for the one that hangs.
    for (int i = 0; i < 100; ++i) replies.Post([&sent, i] { sent.push_back(i); });
    gate.set_value();
  }
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(sent, expected) << "the end waits for what was posted";
  EXPECT_NE(sender, std::this_thread::get_id());
}

TEST(ReplySender, WhoseTurnComesSoonIsAnsweredBeforeOthers) {
  std::promise<void> entered, gate;
  std::string sent;
  {
    ReplySender replies;
    replies.Post([&] {
      entered.set_value();
      gate.get_future().wait();
    });
    entered.get_future().wait();
    for (const char name : {'a', 'b'}) replies.Post([&sent, name] { sent.push_back(name); });
    for (const char name : {'A', 'B'}) replies.Post([&sent, name] { sent.push_back(name); }, storage::Turn::kUrgent);
    gate.set_value();
  }
  EXPECT_EQ(sent, "ABab");
}

TEST(ReplySender, AReplyLetsGoOfWhatItHoldsBeforeTheNextIsSent) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  std::promise<bool> gone;
  ReplySender replies;
  std::promise<void> gate;
  replies.Post([&] { gate.get_future().wait(); });
  replies.Post([held = std::move(held)] {});
  replies.Post([&] { gone.set_value(watched.expired()); });
  gate.set_value();
  EXPECT_TRUE(gone.get_future().get());
}

}  // namespace
}  // namespace fulcrum::pipeline
