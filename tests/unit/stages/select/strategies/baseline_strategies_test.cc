// The strategies whose rule is one line: random, margin, entropy, least-confident, most-confident, lev-on-all, top-lev.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stages/select/strategy.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;

class BaselineStrategiesTest : public ::testing::Test {
 protected:
  BaselineStrategiesTest() {
    candidates_.class_count = 2;
    candidates_.labels = labels_;
    candidates_.predicted = predicted_;
    candidates_.confidence = confidence_;
    candidates_.pool_leverage = leverage_;
    candidates_.batch = 3;
  }

  const std::vector<ClassIndex> labels_ = {kUnlabeled, 0, kUnlabeled, kUnlabeled, kUnlabeled, 1};
  const std::vector<ClassIndex> predicted_ = {0, 0, 1, 1, 0, 1};
  const std::vector<double> confidence_ = {0.9, 0.1, 0.6, 0.7, 0.6, 1.0};
  const std::vector<double> leverage_ = {0.2, 1.0, 0.3, 0.1, 0.3, 0.9};
  Candidates candidates_;
};

TEST_F(BaselineStrategiesTest, MarginTakesTheClosestToTheBorder) {
  const std::vector<double> margin = {0.5, 0, 2, -0.1, 0.2, 0};
  candidates_.margin = margin;
  const auto selection = MakeMargin()->Select(candidates_);
  EXPECT_THAT(RowsOf(*selection), ElementsAre(3, 4, 0));
  EXPECT_EQ(selection->picks[1].gain, -0.2);
  EXPECT_EQ(selection->picks[1].class_index, 0);
}

TEST_F(BaselineStrategiesTest, EntropyTakesTheMostEvenProbabilities) {
  Matrix<double> probabilities(6, 2);
  for (std::size_t row = 0; row < 6; ++row) {
    probabilities(row, 0) = std::vector{0.9, 0.5, 1.0, 0.4, 0.45, 0.5}[row];
    probabilities(row, 1) = 1 - probabilities(row, 0);
  }
  candidates_.probabilities = probabilities.view();
  const auto selection = MakeEntropy()->Select(candidates_);
  EXPECT_THAT(RowsOf(*selection), ElementsAre(4, 3, 0));
  EXPECT_NEAR(selection->picks[1].gain, -0.4 * std::log(0.4) - 0.6 * std::log(0.6), 1e-15);
}

TEST_F(BaselineStrategiesTest, LeastConfidentTakesTheLeastSure) {
  const auto selection = MakeLeastConfident()->Select(candidates_);
  EXPECT_THAT(RowsOf(*selection), ElementsAre(2, 4, 3));
  EXPECT_DOUBLE_EQ(selection->picks[0].gain, 0.4);
  EXPECT_EQ(selection->picks[0].class_index, 1);
}

TEST_F(BaselineStrategiesTest, MostConfidentTakesTheMostSure) {
  EXPECT_THAT(RowsOf(*MakeMostConfident()->Select(candidates_)), ElementsAre(0, 3, 2));
}

TEST_F(BaselineStrategiesTest, LevOnAllTakesTheHighestUnlabeled) {
  const auto selection = MakeLevOnAll()->Select(candidates_);
  EXPECT_THAT(RowsOf(*selection), ElementsAre(2, 4, 0));
  EXPECT_EQ(selection->picks[2].leverage, 0.2);
  EXPECT_EQ(RowsOf(*MakeTopLev()->Select(candidates_)), RowsOf(*selection));
}

TEST_F(BaselineStrategiesTest, RandomChangesWithSeedAndRound) {
  const std::vector<ClassIndex> labels(1000, kUnlabeled);
  candidates_.labels = labels;
  candidates_.predicted = {};
  const std::vector<RowIndex> rows = RowsOf(*MakeRandom()->Select(candidates_));
  EXPECT_EQ(RowsOf(*MakeRandom()->Select(candidates_)), rows);
  candidates_.queries_so_far = 3;
  const std::vector<RowIndex> next_round = RowsOf(*MakeRandom()->Select(candidates_));
  EXPECT_NE(next_round, rows);
  candidates_.seed = 2;
  EXPECT_NE(RowsOf(*MakeRandom()->Select(candidates_)), next_round);
}

TEST_F(BaselineStrategiesTest, RandomIsUniform) {
  // Row 1 and 5 are labeled; each of the other four is in 3 of 4 batches.
  std::vector<int> counts(labels_.size(), 0);
  const int rounds = 4000;
  for (int seed = 0; seed < rounds; ++seed) {
    candidates_.seed = static_cast<std::uint64_t>(seed);
    for (const RowIndex row : RowsOf(*MakeRandom()->Select(candidates_))) ++counts[row];
  }
  for (const RowIndex row : {0, 2, 3, 4}) EXPECT_NEAR(counts[row], 0.75 * rounds, 5 * std::sqrt(rounds * 0.1875));
  EXPECT_EQ(counts[1] + counts[5], 0);
}

}  // namespace
}  // namespace fulcrum::select
