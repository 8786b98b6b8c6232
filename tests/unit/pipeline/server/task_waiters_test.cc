#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "pipeline/server/labeling_service.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::ElementsAre;

constexpr std::chrono::minutes kLong{5};

/// Somebody who waits, and what they were woken with.
class Somebody {
 public:
  std::function<void(Wake)> Woken() {
    return [this](Wake why) { promise_.set_value(why); };
  }
  Wake Wait() { return promise_.get_future().get(); }

 private:
  std::promise<Wake> promise_;
};

TEST(TaskWaiters, WakesInOrderAndNoMoreThanThereAreTasks) {
  std::atomic<std::size_t> open{0};
  std::vector<int> order;
  std::promise<void> two;
  TaskWaiters waiters([&](const std::string&) { return open.exchange(0); });
  for (int i = 0; i < 3; ++i) {
    waiters.Wait("a", TaskWaiters::Clock::now() + kLong, true, [&, i](Wake why) {
      if (why != Wake::kTask) return;
      order.push_back(i);
      if (order.size() == 2) two.set_value();
    });
  }
  open = 2;
  waiters.Notify("a");
  two.get_future().wait();
  waiters.Stop();
  EXPECT_THAT(order, ElementsAre(0, 1));
}

TEST(TaskWaiters, ANewWaiterLooksAtOnceAtWhatItMayHaveMissed) {
  Somebody somebody;
  TaskWaiters waiters([](const std::string&) { return 1; });
  waiters.Wait("a", TaskWaiters::Clock::now() + kLong, false, somebody.Woken());
  EXPECT_EQ(somebody.Wait(), Wake::kTask);
}

TEST(TaskWaiters, TimeIsUpSometime) {
  Somebody somebody;
  TaskWaiters waiters([](const std::string&) { return 0; });
  waiters.Wait("a", TaskWaiters::Clock::now() + std::chrono::milliseconds(1), false, somebody.Woken());
  EXPECT_EQ(somebody.Wait(), Wake::kTimeUp);
}

TEST(TaskWaiters, StoppingLetsEverybodyGo) {
  Somebody before, after;
  TaskWaiters waiters([](const std::string&) { return 0; });
  waiters.Wait("a", TaskWaiters::Clock::now() + kLong, false, before.Woken());
  waiters.Stop();
  EXPECT_EQ(before.Wait(), Wake::kStopping);
  waiters.Wait("a", TaskWaiters::Clock::now() + kLong, false, after.Woken());
  EXPECT_EQ(after.Wait(), Wake::kStopping);
}

}  // namespace
}  // namespace fulcrum::pipeline
