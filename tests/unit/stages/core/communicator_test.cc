#include "stages/core/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "stages/core/random.h"
#include "tests/support/thread_communicator.h"

namespace fulcrum {
namespace {

TEST(Communicator, SharesTheValuesOfAllRanksInTheirOrder) {
  testing::RunOnRanks(3, [](const Communicator& peers) {
    const std::vector<int> own(static_cast<std::size_t>(peers.rank()), peers.rank());
    EXPECT_EQ(ShareValues(peers, own), (std::vector<int>{1, 2, 2}));
    EXPECT_EQ(BroadcastValue(peers, peers.rank(), 2), 2);
    double value = 1 << peers.rank();
    peers.ReduceSum(std::span(&value, 1));
    EXPECT_EQ(value, peers.is_root() ? 7 : 1 << peers.rank());
  });
}

TEST(Communicator, AllRanksHaveTheFirstErrorWithItsRank) {
  testing::RunOnRanks(4, [](const Communicator& peers) {
    EXPECT_TRUE(AgreeOn(peers, absl::OkStatus()).ok());
    const absl::Status own = peers.rank() >= 2 ? absl::DataLossError("bad file") : absl::OkStatus();
    EXPECT_EQ(AgreeOn(peers, own), absl::DataLossError("rank 2 on thread: bad file"));
  });
}

TEST(Communicator, TheOtherRanksEndIfOneFails) {
  EXPECT_THROW(testing::RunOnRanks(3,
                                   [](const Communicator& peers) {
                                     if (peers.rank() == 1) throw std::runtime_error("failed alone");
                                     peers.Barrier();
                                   }),
               std::exception);
}

TEST(Communicator, OneProcessExchangesNothing) {
  EXPECT_EQ(ShareValues(OneProcess(), std::vector<int>{1, 2}), (std::vector<int>{1, 2}));
  EXPECT_EQ(AgreeOn(OneProcess(), absl::DataLossError("bad file")), absl::DataLossError("bad file"));
}

TEST(ExactTerms, SumsDoNotDependOnTheOrder) {
  Random random(3);
  std::vector<double> values(1000);
  double bound = 0;
  for (double& value : values) {
    value = random.Normal() * std::exp(10 * random.Normal());
    bound += std::abs(value);
  }
  const ExactTerms terms(bound);
  const auto sum = [&] {
    return std::accumulate(values.begin(), values.end(), 0.0,
                           [&](double so_far, double value) { return so_far + terms(value); });
  };
  const double expected = sum();
  for (int turn = 0; turn < 20; ++turn) {
    random.Shuffle(std::span(values));
    EXPECT_EQ(sum(), expected);
  }
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), expected, 1e-12 * bound);
}

TEST(DrawDifferent, IsTheBeginningOfAShuffle) {
  for (const std::size_t count : {0, 1, 7, 50, 80}) {
    std::vector<std::uint64_t> list(50);
    std::iota(list.begin(), list.end(), std::uint64_t{0});
    Random random(11);
    for (std::size_t i = 0; i < std::min<std::size_t>(count, 50); ++i)
      std::swap(list[i], list[i + random.Below(50 - i)]);
    list.resize(std::min<std::size_t>(count, 50));
    Random again(11);
    EXPECT_EQ(DrawDifferent(50, count, again), list);
  }
}

TEST(RowShare, CoversAllRowsOnceInWholeUnits) {
  for (const std::size_t total : {1, 511, 513, 13454, 1000000}) {
    for (const std::size_t ranks : {1, 2, 3, 8, 100}) {
      std::size_t next = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const RowShare share = ShareOfRank(total, rank, ranks);
        EXPECT_EQ(share.first, next);
        EXPECT_TRUE(share.first == total || share.first % RowsPerUnit(total) == 0);
        next += share.count;
      }
      EXPECT_EQ(next, total);
    }
  }
}

}  // namespace
}  // namespace fulcrum
