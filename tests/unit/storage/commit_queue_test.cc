#include "storage/commit/commit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <future>
#include <latch>
#include <thread>

namespace fulcrum::storage {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;

class Counted final : public Operation {
 public:
  explicit Counted(std::latch* answered, char name = '-', std::size_t parts = 1)
      : answered_(answered), name_(name), parts_(parts) {}
  char name() const { return name_; }
  std::size_t parts() const override { return parts_; }
  absl::Status Run(Ledger&) override { return absl::OkStatus(); }
  void Answer(const absl::Status&) override { answered_->count_down(); }

 private:
  std::latch* answered_;
  const char name_;
  const std::size_t parts_;
};

/// Holds the first group at a gate, so that a test decides what has come in when the thread looks again.
class CommitQueueTest : public ::testing::Test {
 protected:
  void Start(const CommitQueueOptions& options) {
    queue_ = std::make_unique<CommitQueue>(
        options,
        [this](OperationGroup& group) {
          sizes_.push_back(group.size());
          std::string& names = names_.emplace_back();
          for (auto& operation : group) names.push_back(static_cast<Counted&>(*operation).name());
          if (sizes_.size() == 1) {
            entered_.set_value();
            gate_.get_future().wait();
          }
          for (auto& operation : group) operation->Answer(absl::OkStatus());
        },
        [this] { return ++idle_ % kIdleSteps != 0; });
  }

  absl::Status Push(std::latch& answered, char name = '-', Turn turn = Turn::kInOrder, std::size_t parts = 1) {
    std::unique_ptr<Operation> operation = std::make_unique<Counted>(&answered, name, parts);
    return queue_->Push(operation, turn);
  }

  static constexpr int kIdleSteps = 3;

  std::promise<void> entered_, gate_;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> names_;
  std::atomic<int> idle_ = 0;
  std::unique_ptr<CommitQueue> queue_;
};

TEST_F(CommitQueueTest, WhatComesInMeanwhileIsOneGroupUpToTheLimit) {
  Start({.most_operations = 4});
  std::latch answered(10);
  ASSERT_TRUE(Push(answered).ok());
  entered_.get_future().wait();
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(Push(answered).ok());
  gate_.set_value();
  answered.wait();
  queue_.reset();
  EXPECT_THAT(sizes_, ElementsAre(1, 4, 4, 1));
}

TEST_F(CommitQueueTest, UrgentOperationsOvertakeTheOthersAndLeaveThemHalfOfAGroup) {
  Start({.most_operations = 4});
  std::latch answered(10);
  ASSERT_TRUE(Push(answered).ok());
  entered_.get_future().wait();
  for (const char name : {'a', 'b', 'c'}) ASSERT_TRUE(Push(answered, name).ok());
  for (const char name : {'U', 'V', 'W', 'X', 'Y', 'Z'}) ASSERT_TRUE(Push(answered, name, Turn::kUrgent).ok());
  gate_.set_value();
  answered.wait();
  queue_.reset();
  EXPECT_THAT(names_, ElementsAre("-", "UVab", "WXYc", "Z"));
}

TEST_F(CommitQueueTest, AnOperationCountsAsManyTimesAsItHasParts) {
  Start({.most_operations = 4});
  std::latch answered(6);
  ASSERT_TRUE(Push(answered).ok());
  entered_.get_future().wait();
  for (const auto& [name, parts] : {std::pair('a', 3), {'b', 2}, {'c', 2}, {'d', 9}, {'e', 1}}) {
    ASSERT_TRUE(Push(answered, name, Turn::kInOrder, static_cast<std::size_t>(parts)).ok());
  }
  EXPECT_EQ(queue_->size(), 17u);
  gate_.set_value();
  answered.wait();
  queue_.reset();
  EXPECT_THAT(names_, ElementsAre("-", "a", "bc", "d", "e")) << "what is larger than a group is one of its own";
}

TEST_F(CommitQueueTest, AFullQueueSaysSoAndKeepsNothing) {
  Start({.capacity = 3});
  std::latch answered(4);
  ASSERT_TRUE(Push(answered).ok());
  entered_.get_future().wait();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push(answered).ok());
  std::unique_ptr<Operation> refused = std::make_unique<Counted>(&answered);
  EXPECT_EQ(queue_->Push(refused).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused, nullptr);
  EXPECT_EQ(queue_->size(), 3u);
  gate_.set_value();
  answered.wait();
}

TEST_F(CommitQueueTest, TheEndRunsWhatIsQueuedAndTheIdleWork) {
  Start({});
  std::latch answered(6);
  ASSERT_TRUE(Push(answered).ok());
  entered_.get_future().wait();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Push(answered).ok());
  gate_.set_value();
  queue_.reset();
  EXPECT_TRUE(answered.try_wait());
  EXPECT_GE(idle_.load(), 1);
  EXPECT_EQ(idle_.load() % kIdleSteps, 0) << "idle work was left undone";
}

TEST_F(CommitQueueTest, WhatIsPushedComesBeforeTheRestOfTheIdleWork) {
  std::latch answered(1);
  std::promise<void> idle_begun;
  std::vector<std::string> order;
  int steps = 0;
  auto queue = std::make_unique<CommitQueue>(
      CommitQueueOptions{.idle_time = std::chrono::milliseconds(1)},
      [&](OperationGroup& group) {
        order.emplace_back("group");
        group.front()->Answer(absl::OkStatus());
      },
      [&] {
        order.emplace_back("idle");
        if (++steps == 1) {
          idle_begun.set_value();
          gate_.get_future().wait();
        }
        return steps < 3;
      });
  idle_begun.get_future().wait();
  std::unique_ptr<Operation> operation = std::make_unique<Counted>(&answered);
  ASSERT_TRUE(queue->Push(operation).ok());
  gate_.set_value();
  answered.wait();
  queue.reset();
  EXPECT_THAT(std::vector<std::string>(order.begin(), order.begin() + 2), ElementsAre("idle", "group"));
}

int NicenessOfThisThread() {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
}

TEST(CommitQueue, ItsThreadHasPriorityIfThatIsAllowed) {
  bool allowed = false;
  std::thread([&] {
    allowed = setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), NicenessOfThisThread() - 5) == 0;
  }).join();
  if (!allowed) GTEST_SKIP() << "this process may not raise the priority of its threads";
  const int others = NicenessOfThisThread();
  int niceness = others;
  std::latch answered(1);
  {
    CommitQueue queue(
        {}, [&](OperationGroup&) { niceness = NicenessOfThisThread(); }, [] { return false; });
    std::unique_ptr<Operation> operation = std::make_unique<Counted>(&answered);
    ASSERT_TRUE(queue.Push(operation).ok());
  }
  EXPECT_LT(niceness, others);
}

}  // namespace
}  // namespace fulcrum::storage
