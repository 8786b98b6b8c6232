#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "stages/select/strategy.h"
#include "tests/unit/stages/select/posterior/gaussian_process_reference.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;

constexpr double kHybridNoise = 0.1;

TEST(ScaledRanksTest, SpanZeroToOneAndShareTies) {
  EXPECT_THAT(ScaledRanks(std::vector<double>{5, -1, 9}), ElementsAre(0.5, 0, 1));
  EXPECT_THAT(ScaledRanks(std::vector<double>{2, 7, 2, 8, 2}), ElementsAre(0.25, 0.75, 0.25, 1, 0.25));
  EXPECT_THAT(ScaledRanks(std::vector<double>{3, 3}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(ScaledRanks(std::vector<double>{3}), ElementsAre(0.5));
  EXPECT_THAT(ScaledRanks(std::vector<double>{}), ElementsAre());
}

/// The part of the candidates below, ties counted half: a rank by counting instead of sorting.
double CountedRank(const std::vector<double>& values, std::size_t index) {
  double below = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != index) below += values[i] < values[index] ? 1 : values[i] == values[index] ? 0.5 : 0;
  }
  return below / static_cast<double>(values.size() - 1);
}

/// Hybrid by the formulas of its headers: every number from scratch for every pick.
class ReferenceHybrid {
 public:
  ReferenceHybrid(const SmallPool& pool, const Candidates& candidates)
      : pool_(pool), candidates_(candidates), rows_(UnlabeledRows(candidates.labels)) {
    for (const RowIndex row : LabeledRows(candidates.labels)) ++counts_[candidates.labels[row]];
  }

  std::vector<RowIndex> Choose() {
    std::vector<RowIndex> picks;
    while (picks.size() < candidates_.batch) {
      const std::vector<double> scores = Scores(picks);
      RowIndex best = rows_[0];
      double best_score = -1;
      for (const std::size_t i : Eligible(picks)) {
        if (scores[i] <= best_score) continue;
        best = rows_[i];
        best_score = scores[i];
      }
      picks.push_back(best);
      ++counts_[Leaning(best) > 0 ? 0 : 1];
    }
    return picks;
  }

  /// Whether the class that lags would have been asked otherwise.
  bool RestrictionMattered() const { return restricted_; }

 private:
  GaussianProcessReference Given(const std::vector<RowIndex>& picks) const {
    RowList labeled = LabeledRows(candidates_.labels);
    labeled.insert(labeled.end(), picks.begin(), picks.end());
    return {pool_, candidates_, labeled, kHybridNoise};
  }

  double Leaning(RowIndex row) const { return Given({}).Mean(candidates_, 0, row); }

  /// The variances know of the picks, the means do not.
  std::vector<double> Scores(const std::vector<RowIndex>& picks) const {
    const GaussianProcessReference before = Given({}), now = Given(picks);
    std::vector<double> reductions, leverage;
    for (const RowIndex row : rows_) {
      double sum = 0;
      for (const RowIndex other : rows_) {
        const double doubt = std::erfc(std::abs(before.Mean(candidates_, 0, other)) /
                                       std::sqrt(2 * (now.Covariance(other, other) + kHybridNoise)));
        sum += doubt * std::pow(now.Covariance(row, other), 2);
      }
      reductions.push_back(sum / (now.Covariance(row, row) + kHybridNoise));
      leverage.push_back(candidates_.pool_leverage[row]);
    }
    std::vector<double> scores;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      scores.push_back(0.8 * CountedRank(reductions, i) + 0.2 * CountedRank(leverage, i));
    }
    return scores;
  }

  /// Open candidates, the most likely of the lagging class first, as many as may be asked.
  std::vector<std::size_t> Eligible(const std::vector<RowIndex>& picks) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (std::ranges::find(picks, rows_[i]) == picks.end()) open.push_back(i);
    }
    const int behind = std::abs(counts_[0] - counts_[1]);
    if (behind == 0) return open;
    restricted_ = true;
    const double sign = counts_[0] < counts_[1] ? 1 : -1;
    std::ranges::sort(open, std::greater<>(), [&](std::size_t i) { return sign * Leaning(rows_[i]); });
    const auto own = std::ranges::count_if(open, [&](std::size_t i) { return sign * Leaning(rows_[i]) > 0; });
    const std::size_t as_if_even = std::min(open.size(), 2 * static_cast<std::size_t>(own));
    open.resize(std::max<std::size_t>(5, as_if_even >> behind));
    std::ranges::sort(open);
    return open;
  }

  const SmallPool& pool_;
  const Candidates& candidates_;
  RowList rows_;
  int counts_[2] = {0, 0};
  bool restricted_ = false;
};

TEST(HybridTest, TakesTheLargestScore) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SmallPool pool({.rows = 30, .seed = seed});
    const Candidates candidates = pool.candidates(1);
    const auto selection = MakeHybrid()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(RowsOf(*selection), ReferenceHybrid(pool, candidates).Choose());
    const Pick& pick = selection->picks[0];
    EXPECT_EQ(pick.leverage, candidates.pool_leverage[pick.row]);
    EXPECT_EQ(pick.class_index, candidates.predicted[pick.row]);
  }
}

TEST(HybridTest, AClassThatLagsBehindIsAskedForFirst) {
  std::size_t different = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SmallPool pool({.rows = 30, .seed = seed});
    const RowIndex even = MakeHybrid()->Select(pool.candidates(1))->picks[0].row;
    for (const RowIndex row : {10, 20}) pool.labels()[row] = 0;
    const Candidates candidates = pool.candidates(1);
    ReferenceHybrid reference(pool, candidates);
    EXPECT_EQ(RowsOf(*MakeHybrid()->Select(candidates)), reference.Choose());
    EXPECT_TRUE(reference.RestrictionMattered());
    different += even != RowsOf(*MakeHybrid()->Select(candidates))[0] ? 1 : 0;
  }
  EXPECT_GT(different, 0u) << "the rule never mattered";
}

TEST(HybridTest, EveryPickOfABatchKnowsOfThoseBefore) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const SmallPool pool({.rows = 26, .seed = seed});
    const Candidates candidates = pool.candidates(6);
    const auto selection = MakeHybrid()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(RowsOf(*selection), ReferenceHybrid(pool, candidates).Choose());
  }
}

TEST(HybridTest, AClassWithoutLabelsDoesNotStopIt) {
  SmallPool pool({.rows = 40, .classes = 3, .seed = 4});
  for (const RowIndex row : {4, 5}) pool.labels()[row] = 1;
  const auto selection = MakeHybrid()->Select(pool.candidates(1));
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(selection->picks.size(), 1u);
}

TEST(HybridTest, ABatchLargerThanThePoolIsThePool) {
  const SmallPool pool({.rows = 20, .seed = 6});
  const auto selection = MakeHybrid()->Select(pool.candidates(100));
  ASSERT_TRUE(selection.ok()) << selection.status();
  const std::vector<RowIndex> rows = RowsOf(*selection);
  EXPECT_EQ(std::set<RowIndex>(rows.begin(), rows.end()).size(), 16u);
  EXPECT_EQ(rows.size(), 16u);
}

// More candidates than are looked at twice, more than are referred to: still a batch of what is unlabeled, and no row
// of a lopsided pool is picked twice when the list of one class runs dry.
TEST(HybridTest, ALargePoolIsNarrowedDown) {
  const SmallPool pool({.rows = 4300, .dims = 2, .seed = 7});
  const Candidates candidates = pool.candidates(20);
  const auto selection = MakeHybrid()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  const std::vector<RowIndex> rows = RowsOf(*selection);
  EXPECT_EQ(std::set<RowIndex>(rows.begin(), rows.end()).size(), 20u);
  for (const RowIndex row : rows) EXPECT_EQ(candidates.labels[row], kUnlabeled);
}

}  // namespace
}  // namespace fulcrum::select
