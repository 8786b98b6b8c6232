#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "stages/core/random.h"
#include "stages/select/strategies/strategy_parts.h"

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;
using Counts = std::vector<std::size_t>;

TEST(BatchSharesTest, DividesEvenly) {
  EXPECT_THAT(DivideBatch(10, Counts{2, 2}, Counts{50, 50}), ElementsAre(5, 5));
  EXPECT_THAT(DivideBatch(9, Counts{7, 1, 3}, Counts{50, 50, 50}), ElementsAre(3, 3, 3));
}

TEST(BatchSharesTest, WhatIsLeftOverGoesToTheFewestLabels) {
  EXPECT_THAT(DivideBatch(11, Counts{9, 2}, Counts{50, 50}), ElementsAre(5, 6));
  EXPECT_THAT(DivideBatch(8, Counts{5, 3, 4}, Counts{50, 50, 50}), ElementsAre(2, 3, 3));
  EXPECT_THAT(DivideBatch(1, Counts{4, 4, 4}, Counts{50, 50, 50}), ElementsAre(1, 0, 0));
}

TEST(BatchSharesTest, AClassThatRunsOutGivesItsShareToTheOthers) {
  EXPECT_THAT(DivideBatch(10, Counts{2, 2}, Counts{2, 50}), ElementsAre(2, 8));
  EXPECT_THAT(DivideBatch(10, Counts{2, 2}, Counts{0, 50}), ElementsAre(0, 10));
  // 4 each, class 1 has 1: its 3 go round again, the odd one to class 2, which has fewer labels than class 0.
  EXPECT_THAT(DivideBatch(12, Counts{6, 1, 2}, Counts{50, 1, 50}), ElementsAre(5, 1, 6));
}

TEST(BatchSharesTest, GivesAllThereIsWhenThatIsLess) {
  EXPECT_THAT(DivideBatch(10, Counts{2, 2, 2}, Counts{1, 0, 3}), ElementsAre(1, 0, 3));
  EXPECT_THAT(DivideBatch(10, Counts{}, Counts{}), ElementsAre());
}

TEST(BatchSharesTest, AlwaysSumsToTheBatchAndNeverTakesWhatIsNotThere) {
  Random random(1);
  for (int round = 0; round < 500; ++round) {
    Counts labeled, available;
    for (std::size_t c = 0; c < 2 + random.Below(5); ++c) {
      labeled.push_back(random.Below(6));
      available.push_back(random.Below(9));
    }
    const std::size_t batch = random.Below(40);
    const Counts shares = DivideBatch(batch, labeled, available);
    const std::size_t all = std::accumulate(available.begin(), available.end(), std::size_t{0});
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::size_t{0}), std::min(batch, all));
    for (std::size_t c = 0; c < shares.size(); ++c) {
      EXPECT_LE(shares[c], available[c]);
      // A class that still has examples gets at least the even share.
      if (shares[c] < available[c]) {
        EXPECT_GE(shares[c], batch / shares.size());
      }
    }
  }
}

}  // namespace
}  // namespace fulcrum::select
