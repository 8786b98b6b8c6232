// What a pass over rows may count on, however its blocks are moved: the flow graph, or turns of a parallel loop.
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "pipeline/round/flow.h"
#include "stages/core/parallel.h"
#include "tbb/flow_graph.h"
#include "tbb/global_control.h"

namespace fulcrum::pipeline {
namespace {

void Nothing(std::size_t) {}

struct NamedStream {
  std::string name;
  const BlockStream* stream;
};

void PrintTo(const NamedStream& named, std::ostream* out) {
  *out << named.name;
}

class BlockStreamTest : public ::testing::TestWithParam<NamedStream> {
 protected:
  const BlockStream& stream() const { return *GetParam().stream; }

  const tbb::global_control four_threads_{tbb::global_control::max_allowed_parallelism, 4};
};

INSTANTIATE_TEST_SUITE_P(Streams, BlockStreamTest,
                         ::testing::Values(NamedStream{"Turns", &BlocksInTurns()},
                                           NamedStream{"Flow", &BlocksInFlow()}),
                         [](const auto& test) { return test.param.name; });

TEST_P(BlockStreamTest, EveryBlockIsWorkedOnOnceAndTakenInOrderAfterIt) {
  for (const std::size_t blocks : {0, 1, 2, 7, 500}) {
    std::vector<std::atomic<int>> worked(blocks);
    std::vector<std::size_t> taken;
    stream().Run(
        blocks, 3, [&](std::size_t block) { ++worked[block]; },
        [&](std::size_t block) {
          EXPECT_EQ(worked[block], 1);
          taken.push_back(block);
        });
    std::vector<std::size_t> in_order(blocks);
    std::iota(in_order.begin(), in_order.end(), std::size_t{0});
    EXPECT_EQ(taken, in_order);
  }
}

TEST_P(BlockStreamTest, BlocksOnTheirWayAreNeighboursAndNoMoreThanAllowed) {
  // As the passes use it: a place for every block on its way, found by its number.
  constexpr std::size_t kAtOnce = 3;
  std::vector<std::atomic<bool>> in_use(kAtOnce);
  std::atomic<int> clashes = 0;
  stream().Run(
      2000, kAtOnce, [&](std::size_t block) { clashes += in_use[block % kAtOnce].exchange(true) ? 1 : 0; },
      [&](std::size_t block) { in_use[block % kAtOnce] = false; });
  EXPECT_EQ(clashes, 0);
}

TEST_P(BlockStreamTest, AnExceptionReachesTheCallerAsItWasThrown) {
  const auto throw_at_five = [](std::size_t block) {
    if (block == 5) throw std::bad_alloc();
  };
  EXPECT_THROW(stream().Run(100, 4, throw_at_five, Nothing), std::bad_alloc);
  EXPECT_THROW(stream().Run(100, 4, Nothing, throw_at_five), std::bad_alloc);
  std::atomic<int> begun = 0;
  const auto count = [&](std::size_t) { ++begun; };
  EXPECT_THROW(stream().Run(1000, 4, count, [](std::size_t) { throw std::runtime_error("gone"); }), std::runtime_error);
  EXPECT_LE(begun, 8) << "nothing more begins than was on its way";
}

TEST_P(BlockStreamTest, ARequestToStopEndsItBetweenBlocks) {
  std::stop_source stop;
  const StopScope scope(stop.get_token());
  std::atomic<int> begun = 0;
  const auto work = [&](std::size_t block) {
    ++begun;
    if (block == 10) stop.request_stop();
  };
  EXPECT_THROW(stream().Run(1000, 4, work, Nothing), StoppedOnRequest);
  EXPECT_LE(begun, 16);
}

TEST_P(BlockStreamTest, LoopsInsideBelongToTheCallersScope) {
  std::stop_source stop;
  const StopScope scope(stop.get_token());
  const auto loop = [&](std::size_t) {
    stop.request_stop();
    ParallelForBlocks(10, 1, [](std::size_t, std::size_t) { FAIL() << "began although it was asked to stop"; });
  };
  EXPECT_THROW(stream().Run(3, 1, loop, Nothing), StoppedOnRequest);
}

TEST_P(BlockStreamTest, PassesOfSeveralNodesOfAGraphRunAtTheSameTime) {
  // As the classes of a round do: each node waits for a stream of its own.
  constexpr std::size_t kNodes = 6, kBlocks = 300;
  std::vector<std::size_t> sums(kNodes, 0);
  tbb::flow::graph graph;
  tbb::flow::function_node<std::size_t, std::size_t> pass(graph, tbb::flow::unlimited, [&](std::size_t node) {
    tbb::this_task_arena::isolate([&] {
      std::vector<std::size_t> parts(kBlocks);
      stream().Run(
          kBlocks, 4, [&](std::size_t block) { parts[block] = block; },
          [&](std::size_t block) {
            ParallelForBlocks(4, 1, [](std::size_t, std::size_t) {});
            sums[node] += parts[block];
          });
    });
    return node;
  });
  for (std::size_t node = 0; node < kNodes; ++node) pass.try_put(node);
  graph.wait_for_all();
  for (const std::size_t sum : sums) EXPECT_EQ(sum, kBlocks * (kBlocks - 1) / 2);
}

}  // namespace
}  // namespace fulcrum::pipeline
