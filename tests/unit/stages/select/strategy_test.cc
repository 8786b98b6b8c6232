#include "stages/select/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategies/strategy_parts.h"

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(UnlabeledRowsTest, ListsRowsWithoutALabelAscending) {
  EXPECT_THAT(UnlabeledRows(std::vector<ClassIndex>{kUnlabeled, 1, 0, kUnlabeled, kUnlabeled}), ElementsAre(0, 3, 4));
  EXPECT_THAT(UnlabeledRows(std::vector<ClassIndex>{0, 1}), IsEmpty());
}

TEST(TopByScoreTest, BestFirstAndTiesToTheSmallerRow) {
  const RowList rows = {9, 4, 7, 2, 5};
  const std::vector<double> scores = {0.5, 0.5, 0.9, 0.1, 0.5};
  std::vector<RowIndex> picked;
  const auto picks = TopByScore(rows, scores, 4);
  ASSERT_TRUE(picks.ok()) << picks.status();
  for (const Pick& pick : *picks) picked.push_back(pick.row);
  EXPECT_THAT(picked, ElementsAre(7, 4, 5, 9));
  EXPECT_EQ(TopByScore(rows, scores, 1)->front().gain, 0.9);
}

TEST(TopByScoreTest, GivesAllThereIsWhenThatIsLess) {
  EXPECT_EQ(TopByScore(RowList{3, 1}, std::vector<double>{1, 2}, 10)->size(), 2u);
  EXPECT_THAT(*TopByScore(RowList{}, std::vector<double>{}, 10), IsEmpty());
}

TEST(TopByScoreTest, AScoreThatIsNotANumberIsAnErrorThatNamesTheRow) {
  const auto picks = TopByScore(RowList{3, 8, 5}, std::vector<double>{1, kNaN, kNaN}, 1);
  EXPECT_EQ(picks.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(picks.status().message()), HasSubstr("row 5 of the pool"));
}

TEST(ScoreOrderTest, IsATotalOrderOverAllDoubles) {
  const std::vector<double> values = {kNaN, kInfinity, -kInfinity, 0.0, -0.0, 1, 1, -1, 1e308, 1e-320, kNaN};
  for (std::size_t a = 0; a < values.size(); ++a) {
    for (std::size_t b = 0; b < values.size(); ++b) {
      const auto before = [&](std::size_t x, std::size_t y) {
        return GoesBefore(values[x], static_cast<RowIndex>(x), values[y], static_cast<RowIndex>(y));
      };
      EXPECT_EQ(before(a, b), a != b && !before(b, a)) << values[a] << " and " << values[b];
      for (std::size_t c = 0; c < values.size(); ++c) {
        EXPECT_TRUE(!before(a, b) || !before(b, c) || before(a, c)) << values[a] << values[b] << values[c];
      }
    }
  }
}

TEST(ScoreOrderTest, LargerFirstAndNaNLast) {
  std::vector<double> values = {kNaN, 1, kInfinity, kNaN, -kInfinity, 2};
  std::ranges::sort(values, LargerFirst());
  EXPECT_THAT(std::vector<double>(values.begin(), values.begin() + 4), ElementsAre(kInfinity, 2, 1, -kInfinity));
  EXPECT_TRUE(std::isnan(values[4]) && std::isnan(values[5]));
}

TEST(ScoreOrderTest, RanksEndWithNaNAmongTheValues) {
  EXPECT_THAT(ScaledRanks(std::vector<double>{2, kNaN, 1}), ElementsAre(1, 0, 0.5));
  EXPECT_THAT(ScaledRanks(std::vector<double>{kNaN, kNaN, 7}), ElementsAre(0.25, 0.25, 1));
}

TEST(ScoreOrderTest, SomebodyIsEligibleEvenIfNoLikelihoodIsANumber) {
  Matrix<double> means(64, 2);
  for (std::size_t i = 0; i < means.rows(); ++i) means(i, 0) = means(i, 1) = kNaN;
  const std::vector<bool> eligible = EligibleForLaggingClass(std::vector<std::size_t>{2, 9}, means.view());
  EXPECT_GT(std::ranges::count(eligible, true), 0);
}

TEST(ScoreOrderTest, ALazyQueueHandsOutNumbersBeforeNaN) {
  std::vector<LazyQueue::Candidate> candidates;
  for (std::uint32_t i = 0; i < 100; ++i) {
    candidates.push_back({.gain = i % 3 == 0 ? kNaN : i, .row = i, .item = i, .step = 0});
  }
  LazyQueue queue(std::move(candidates));
  std::vector<double> gains;
  while (!queue.empty()) gains.push_back(queue.PopBound().gain);
  EXPECT_TRUE(std::is_sorted(gains.begin(), gains.end(), LargerFirst()));
  EXPECT_EQ(std::ranges::count_if(gains, [](double gain) { return std::isnan(gain); }), 34);
}

}  // namespace
}  // namespace fulcrum::select
