#include <atomic>
#include <cstddef>

#include "gtest/gtest.h"
#include "stages/core/parallel.h"

namespace fulcrum {
namespace {

TEST(StopScope, NothingStopsOutsideAScope) {
  EXPECT_NO_THROW(ThrowIfStopRequested());
  EXPECT_FALSE(StopScope::Token().stop_possible());
}

TEST(StopScope, EndsWithItsBlock) {
  std::stop_source source;
  source.request_stop();
  {
    const StopScope scope(source.get_token());
    EXPECT_THROW(ThrowIfStopRequested(), StoppedOnRequest);
    {
      const StopScope inner{std::stop_token()};
      EXPECT_NO_THROW(ThrowIfStopRequested()) << "the innermost scope decides";
    }
    EXPECT_THROW(ThrowIfStopRequested(), StoppedOnRequest);
  }
  EXPECT_NO_THROW(ThrowIfStopRequested());
}

TEST(StopScope, AParallelLoopEndsBetweenItsBlocksOnEveryThread) {
  constexpr std::size_t kBlocks = 100'000;
  std::stop_source source;
  const StopScope scope(source.get_token());
  std::atomic<std::size_t> begun = 0;
  const auto stop_at_the_tenth = [&](std::size_t, std::size_t) {
    if (++begun == 10) source.request_stop();
  };
  EXPECT_THROW(ParallelForBlocks(kBlocks, 1, stop_at_the_tenth), StoppedOnRequest);
  EXPECT_LT(begun, kBlocks);
}

TEST(StopScope, NestedLoopsBelongToIt) {
  std::stop_source source;
  const StopScope scope(source.get_token());
  std::atomic<std::size_t> finished = 0;
  const auto outer = [&](std::size_t, std::size_t) {
    source.request_stop();
    ParallelForBlocks(8, 1, [](std::size_t, std::size_t) {});
    ++finished;
  };
  EXPECT_THROW(ParallelForBlocks(8, 1, outer), StoppedOnRequest);
  EXPECT_EQ(finished, 0u);
}

}  // namespace
}  // namespace fulcrum
