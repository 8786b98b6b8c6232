#include "stages/core/parallel.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"

namespace fulcrum {
namespace {

std::set<std::pair<std::size_t, std::size_t>> BlocksOf(std::size_t total, std::size_t block) {
  std::mutex mutex;
  std::set<std::pair<std::size_t, std::size_t>> blocks;
  ParallelForBlocks(total, block, [&](std::size_t first, std::size_t count) {
    const std::lock_guard lock(mutex);
    blocks.emplace(first, count);
  });
  return blocks;
}

TEST(ParallelForBlocks, CoversEveryItemOnce) {
  for (std::size_t total : {0, 1, 9, 10, 11, 1000}) {
    std::vector<std::atomic<int>> seen(total);
    ParallelForBlocks(total, 10, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) ++seen[i];
    });
    for (const auto& count : seen) EXPECT_EQ(count, 1) << total << " items";
  }
}

TEST(ParallelForBlocks, BlocksDoNotDependOnTheThreads) {
  const auto with_all = BlocksOf(1003, 10);
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_EQ(BlocksOf(1003, 10), with_all);
  EXPECT_EQ(with_all.size(), 101u);
}

}  // namespace
}  // namespace fulcrum
