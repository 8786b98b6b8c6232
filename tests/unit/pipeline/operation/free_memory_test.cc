#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <memory>
#include <vector>

#include "pipeline/operation/watchdog.h"

namespace fulcrum::pipeline {
namespace {

std::size_t ResidentMib() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

TEST(ReturnFreeMemoryTest, ReturnsWhatIsFreeBetweenWhatStays) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have an allocator of their own";
#endif
  constexpr std::size_t kBlock = std::size_t{48} << 10, kBlocks = 3'000;  // 140 MiB
  std::vector<std::unique_ptr<char[]>> blocks(kBlocks);
  for (auto& block : blocks) {
    block = std::make_unique_for_overwrite<char[]>(kBlock);
    std::fill_n(block.get(), kBlock, 'x');
  }
  const std::size_t full = ResidentMib();
  // What stays is spread over the heap to its end, so the allocator cannot shorten it.
  for (std::size_t i = 0; i + 1 < kBlocks; ++i) {
    if (i % 20 != 0) blocks[i].reset();
  }
  EXPECT_GT(ResidentMib() + 20, full);
  ReturnFreeMemory();
  EXPECT_LT(ResidentMib() + 100, full);
  for (std::size_t i = 0; i < kBlocks; i += 20) EXPECT_EQ(blocks[i][kBlock - 1], 'x');
}

}  // namespace
}  // namespace fulcrum::pipeline
