#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#include "absl/strings/cord.h"
#include "pipeline/round/flow.h"
#include "tbb/global_control.h"
#include "tbb/parallel_for.h"
#include "tbb/task_arena.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Opens once and stays open.
class Gate {
 public:
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/// How many there are now, and the most there ever were.
class Population {
 public:
  int Enter() {
    const int now = ++now_;
    int most = most_.load();
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
    return now;
  }
  void Leave() { --now_; }
  int now() const { return now_; }
  int most() const { return most_; }

 private:
  std::atomic<int> now_{0};
  std::atomic<int> most_{0};
};

/// 0, 1, ..., count - 1.
class Counter {
 public:
  explicit Counter(int count) : count_(count) {}
  absl::StatusOr<std::optional<int>> operator()() {
    if (next_ == count_) return std::nullopt;
    return next_++;
  }

 private:
  int count_;
  int next_ = 0;
};

absl::StatusOr<int> Same(int value) {
  return value;
}

/// Runs with four threads whatever the machine has, so that gates between stages cannot starve.
template <typename Source, typename Transform, typename Sink>
absl::Status RunOnFourThreads(const FlowOptions& options, Source source, Transform transform, Sink sink) {
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, 4);
  tbb::task_arena arena(4);
  return arena.execute([&] { return RunBoundedFlow(options, source, transform, sink); });
}

TEST(BoundedFlowTest, EmptySourceIsDoneAtOnce) {
  const auto never = [](int) -> absl::Status { return absl::InternalError("called"); };
  EXPECT_TRUE(RunBoundedFlow({}, Counter(0), Same, never).ok());
}

TEST(BoundedFlowTest, SinkSeesSourceOrderAlthoughTransformsFinishOutOfOrder) {
  Gate later_is_done;
  std::vector<int> seen;
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 4}, Counter(100),
      [&](int value) -> absl::StatusOr<int> {
        if (value == 0) later_is_done.Wait();
        if (value == 2) later_is_done.Open();
        return value * 10;
      },
      [&](int value) {
        seen.push_back(value);
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(seen.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i * 10);
}

TEST(BoundedFlowTest, AsManyItemsAsAllowedAreInFlightAndNeverMore) {
  constexpr int kBound = 5;
  Population in_flight;
  Gate full;
  Counter counter(2000);
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = kBound},
      [&]() -> absl::StatusOr<std::optional<int>> {
        auto item = counter();
        if (item->has_value() && in_flight.Enter() == kBound) full.Open();
        return item;
      },
      Same,
      [&](int value) {
        // The first item stays in the sink until the flow has filled up behind it.
        if (value == 0) full.Wait();
        in_flight.Leave();
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(in_flight.most(), kBound);
  EXPECT_EQ(in_flight.now(), 0);
}

TEST(BoundedFlowTest, BoundOfOneHandlesOneItemAfterTheOther) {
  Population in_flight;
  Counter counter(500);
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 1},
      [&]() -> absl::StatusOr<std::optional<int>> {
        auto item = counter();
        if (item->has_value()) in_flight.Enter();
        return item;
      },
      Same,
      [&](int) {
        in_flight.Leave();
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(in_flight.most(), 1);
}

TEST(BoundedFlowTest, BoundOfZeroIsRefused) {
  const auto sink = [](int) { return absl::OkStatus(); };
  EXPECT_EQ(RunBoundedFlow({.max_in_flight = 0}, Counter(3), Same, sink).code(), absl::StatusCode::kInvalidArgument);
}

TEST(BoundedFlowTest, TransformsRunAtTheSameTime) {
  Population inside;
  Gate both;
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 2}, Counter(2),
      [&](int value) -> absl::StatusOr<int> {
        if (inside.Enter() == 2) both.Open();
        both.Wait();
        return value;
      },
      [](int) { return absl::OkStatus(); });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(BoundedFlowTest, SourceErrorIsReturnedWithItsStage) {
  int calls = 0;
  const absl::Status status = RunOnFourThreads(
      {.source_name = "read row group"},
      [&]() -> absl::StatusOr<std::optional<int>> {
        if (++calls == 50) return absl::DataLossError("page 3 is damaged");
        return calls;
      },
      Same, [](int) { return absl::OkStatus(); });
  EXPECT_EQ(status, absl::DataLossError("read row group: page 3 is damaged"));
  EXPECT_EQ(calls, 50);
}

TEST(BoundedFlowTest, TransformErrorStopsTheRestAndIsReturnedWithItsStage) {
  std::vector<int> seen;
  std::atomic<int> produced{0};
  Counter counter(100'000);
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 4, .transform_name = "decode"},
      [&] {
        ++produced;
        return counter();
      },
      [](int value) -> absl::StatusOr<int> {
        if (value == 30) return absl::DataLossError("bad block");
        return value;
      },
      [&](int value) {
        seen.push_back(value);
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::DataLossError("decode: bad block"));
  EXPECT_LE(produced, 31 + 4);
  EXPECT_THAT(seen, Each(::testing::Lt(30)));
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(BoundedFlowTest, SinkErrorStopsTheRestAndKeepsItsPayload) {
  int calls = 0;
  absl::Status failure = absl::ResourceExhaustedError("disk full");
  failure.SetPayload("fulcrum.test/kind", absl::Cord("13"));
  const absl::Status status = RunOnFourThreads({.sink_name = "write pool"}, Counter(100'000), Same, [&](int value) {
    ++calls;
    return value == 10 ? failure : absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "write pool: disk full");
  EXPECT_EQ(status.GetPayload("fulcrum.test/kind"), absl::Cord("13"));
  EXPECT_EQ(calls, 11);
}

TEST(BoundedFlowTest, ExceptionsBecomeErrorsOfTheirStage) {
  const auto keep = [](int) { return absl::OkStatus(); };
  const auto thrown_by_transform = [&](auto exception) {
    return RunOnFourThreads(
        {.transform_name = "decode"}, Counter(1000),
        [&](int value) -> absl::StatusOr<int> {
          if (value == 7) throw exception;
          return value;
        },
        keep);
  };
  const absl::Status known = thrown_by_transform(std::runtime_error("no more luck"));
  EXPECT_EQ(known.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(known.message()), HasSubstr("decode: an exception was thrown: no more luck"));
  EXPECT_EQ(thrown_by_transform(std::bad_alloc()).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(thrown_by_transform(42).code(), absl::StatusCode::kInternal);

  const auto broken_source = []() -> absl::StatusOr<std::optional<int>> { throw std::runtime_error("gone"); };
  EXPECT_THAT(std::string(RunBoundedFlow({}, broken_source, Same, keep).message()), HasSubstr("source: "));
  const auto broken_sink = [](int) -> absl::Status { throw std::runtime_error("gone"); };
  EXPECT_THAT(std::string(RunBoundedFlow({}, Counter(9), Same, broken_sink).message()), HasSubstr("sink: "));
}

TEST(BoundedFlowTest, StopsWhenTheCallerAsksFor) {
  std::stop_source stop;
  std::vector<int> seen;
  std::atomic<int> produced{0};
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 3, .stop = stop.get_token()},
      [&]() -> absl::StatusOr<std::optional<int>> { return produced++; },  // without an end
      Same,
      [&](int value) {
        seen.push_back(value);
        if (value == 5) stop.request_stop();
        return absl::OkStatus();
      });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_LE(produced, 6 + 3);
}

TEST(BoundedFlowTest, StopBeforeTheStartDoesNothing) {
  std::stop_source stop;
  stop.request_stop();
  std::vector<int> seen;
  const absl::Status status = RunBoundedFlow({.stop = stop.get_token()}, Counter(5), Same, [&](int value) {
    seen.push_back(value);
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(seen, IsEmpty());
}

TEST(BoundedFlowTest, StopThatComesWhenAllWorkIsDoneIsNoCancellation) {
  std::stop_source stop;
  Gate exhausted;
  Counter counter(1);
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 2, .stop = stop.get_token()},
      [&] {
        auto item = counter();
        if (!item->has_value()) exhausted.Open();
        return item;
      },
      Same,
      [&](int) {
        exhausted.Wait();
        stop.request_stop();
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(BoundedFlowTest, ItemsMayBeMoveOnlyAndNoneOutlivesAFailedRun) {
  const auto life = std::make_shared<int>(0);  // its use count is the number of live items, plus one
  using Item = std::unique_ptr<std::shared_ptr<int>>;
  std::atomic<int> made{0};
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 6},
      [&]() -> absl::StatusOr<std::optional<Item>> {
        ++made;
        return std::make_unique<std::shared_ptr<int>>(life);
      },
      [](Item item) -> absl::StatusOr<Item> { return item; },
      [&](Item) { return made > 200 ? absl::AbortedError("enough") : absl::OkStatus(); });
  EXPECT_EQ(status, absl::AbortedError("sink: enough"));
  EXPECT_EQ(life.use_count(), 1);
}

TEST(BoundedFlowTest, TenThousandItemsWithLoopsInsideTheirTransforms) {
  constexpr int kItems = 10'000;
  long long sum = 0;
  int expected_next = 0;
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 16}, Counter(kItems),
      [](int value) -> absl::StatusOr<std::pair<int, int>> {
        std::atomic<int> total{0};
        tbb::parallel_for(0, 8, [&](int i) { total += value + i; });
        return std::pair(value, total.load());
      },
      [&](std::pair<int, int> item) {
        if (item.first != expected_next++) return absl::InternalError("out of order");
        sum += item.second;
        return absl::OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(sum, 8LL * kItems * (kItems - 1) / 2 + 28LL * kItems);
}

TEST(BoundedFlowTest, FlowsInsideATransformDoNotDisturbTheOuterOne) {
  int consumed = 0;
  const absl::Status status = RunOnFourThreads(
      {.max_in_flight = 4}, Counter(200),
      [](int value) -> absl::StatusOr<int> {
        int inner = 0;
        const absl::Status nested = RunBoundedFlow({.max_in_flight = 2}, Counter(5), Same, [&](int) {
          ++inner;
          return absl::OkStatus();
        });
        if (!nested.ok() || inner != 5) return absl::InternalError("the inner flow is incomplete");
        return value;
      },
      [&](int) {
        ++consumed;
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(consumed, 200);
}

}  // namespace
}  // namespace fulcrum::pipeline
