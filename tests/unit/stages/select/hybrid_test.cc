#include "stages/select/hybrid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stages/select/ranks.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/select/dense_inverse.h"
#include "tests/unit/stages/select/set_function_reference.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;

TEST(ScaledRanksTest, SpanZeroToOneAndShareTies) {
  EXPECT_THAT(ScaledRanks(std::vector<double>{5, -1, 9}), ElementsAre(0.5, 0, 1));
  EXPECT_THAT(ScaledRanks(std::vector<double>{2, 7, 2, 8, 2}), ElementsAre(0.25, 0.75, 0.25, 1, 0.25));
  EXPECT_THAT(ScaledRanks(std::vector<double>{3, 3}), ElementsAre(0.5, 0.5));
  EXPECT_THAT(ScaledRanks(std::vector<double>{3}), ElementsAre(0.5));
  EXPECT_THAT(ScaledRanks(std::vector<double>{}), ElementsAre());
}

/// The part of the unlabeled below, ties counted half: a rank by counting instead of sorting.
double CountedRank(const std::vector<double>& values, std::size_t index) {
  double below = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != index) below += values[i] < values[index] ? 1 : values[i] == values[index] ? 0.5 : 0;
  }
  return below / static_cast<double>(values.size() - 1);
}

/// (K_ll + 0.1 I)^-1 and the kernel it is made from.
struct Regression {
  Regression(const SmallPool& pool, const Candidates& candidates)
      : all(testing::NaiveKernel(candidates.classifier_kernel, pool.features(), pool.features())),
        labeled(LabeledRows(candidates.labels)) {
    Matrix<double> among(labeled.size(), labeled.size());
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      for (std::size_t j = 0; j < labeled.size(); ++j) among(i, j) = all(labeled[i], labeled[j]) + (i == j ? 0.1 : 0);
    }
    inverse = DenseInverse(among.view());
  }

  double Variance(RowIndex row) const {
    double variance = all(row, row);
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      for (std::size_t j = 0; j < labeled.size(); ++j)
        variance -= all(row, labeled[i]) * inverse(i, j) * all(row, labeled[j]);
    }
    return variance;
  }
  /// Of two classes: above zero for class 0, both weighed alike.
  double Leaning(const Candidates& candidates, RowIndex row) const {
    double count[2] = {0, 0};
    for (const RowIndex other : labeled) count[candidates.labels[other]] += 1;
    double sum = 0;
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      for (std::size_t j = 0; j < labeled.size(); ++j) {
        const ClassIndex label = candidates.labels[labeled[j]];
        sum += all(row, labeled[i]) * inverse(i, j) * (label == 0 ? 1 : -1) / count[label];
      }
    }
    return sum;
  }

  Matrix<double> all;
  RowList labeled;
  Matrix<double> inverse;
};

/// s by row, straight from the header; zero for the labeled.
std::vector<double> ReferenceScores(const SmallPool& pool, const Candidates& candidates) {
  const RowList rows = UnlabeledRows(candidates.labels);
  const Regression regression(pool, candidates);
  std::vector<double> leverage(rows.size()), coverage, doubt;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Group& group = pool.group(static_cast<std::size_t>(candidates.predicted[rows[i]]));
    const auto position = static_cast<std::size_t>(std::ranges::find(group.rows, rows[i]) - group.rows.begin());
    leverage[i] = group.leverage[position] * static_cast<double>(group.rows.size()) / static_cast<double>(group.rank);
    coverage.push_back(regression.Variance(rows[i]));
    doubt.push_back(1 - candidates.confidence[rows[i]]);
  }
  const double weight = 1 / (1 + std::pow(static_cast<double>(candidates.queries_so_far) / 30, 2));
  std::vector<double> scores(candidates.labels.size(), 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    scores[rows[i]] = weight * (0.75 * CountedRank(leverage, i) + 0.25 * CountedRank(coverage, i)) +
                      (1 - weight) * CountedRank(doubt, i);
  }
  return scores;
}

TEST(HybridTest, TakesTheLargestMixedScore) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const SmallPool pool({.rows = 50, .seed = seed});
    for (const std::size_t queries : {0, 30, 1000}) {
      Candidates candidates = pool.candidates(1);
      candidates.queries_so_far = queries;
      const std::vector<double> scores = ReferenceScores(pool, candidates);
      const auto selection = MakeHybrid()->Select(candidates);
      ASSERT_TRUE(selection.ok()) << selection.status();
      EXPECT_EQ(selection->picks[0].row, static_cast<RowIndex>(std::ranges::max_element(scores) - scores.begin()));
      EXPECT_NEAR(selection->picks[0].gain, *std::ranges::max_element(scores), 1e-12);
    }
  }
}

TEST(HybridTest, AClassThatLagsBehindIsAskedForFirst) {
  std::size_t restricted = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SmallPool pool({.rows = 50, .seed = seed});
    // Two labels more for class 0; the rows stay where their predictions put them.
    for (const RowIndex row : {10, 20}) pool.labels()[row] = 0;
    const Candidates candidates = pool.candidates(1);
    const Regression regression(pool, candidates);
    std::vector<double> scores = ReferenceScores(pool, candidates);
    const auto best_of_all = std::ranges::max_element(scores) - scores.begin();
    for (const RowIndex row : UnlabeledRows(candidates.labels)) {
      if (regression.Leaning(candidates, row) > 0) scores[row] = -1;
    }
    const auto expected = std::ranges::max_element(scores) - scores.begin();
    const auto selection = MakeHybrid()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(selection->picks[0].row, static_cast<RowIndex>(expected));
    restricted += expected != best_of_all ? 1 : 0;
  }
  EXPECT_GT(restricted, 0u) << "the rule never mattered";
}

TEST(HybridTest, AClassWithoutLabelsDoesNotStopIt) {
  SmallPool pool({.rows = 40, .classes = 3, .seed = 4});
  for (const RowIndex row : {4, 5}) pool.labels()[row] = 1;
  const auto selection = MakeHybrid()->Select(pool.candidates(1));
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(selection->picks.size(), 1u);
}

TEST(HybridTest, LateItIsUncertainty) {
  const SmallPool pool({.rows = 50, .seed = 2});
  Candidates candidates = pool.candidates(1);
  candidates.queries_so_far = 1000000;
  const RowList rows = UnlabeledRows(candidates.labels);
  const auto least_sure = std::ranges::min_element(rows, {}, [&](RowIndex row) { return candidates.confidence[row]; });
  EXPECT_EQ(MakeHybrid()->Select(candidates)->picks[0].row, *least_sure);
}

TEST(HybridTest, InABatchTheScoreTakesThePlaceOfLeverageInTheSetFunction) {
  const SmallPool pool({.rows = 60, .seed = 5});
  Candidates candidates = pool.candidates(8);
  candidates.queries_so_far = 10;
  const auto selection = MakeHybrid()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_TRUE(selection->has_certificate);
  const std::vector<double> scores = ReferenceScores(pool, candidates);
  for (std::size_t c = 0; c < 2; ++c) {
    const Group& group = pool.group(c);
    std::vector<double> group_scores;
    std::vector<std::size_t> labeled;
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      group_scores.push_back(scores[group.rows[i]]);
      if (candidates.labels[group.rows[i]] != kUnlabeled) labeled.push_back(i);
    }
    std::vector<RowIndex> expected, actual;
    for (const std::size_t position : ReferenceGreedy({.rows = group.rows,
                                      .scores = group_scores,
                                      .kernel = group.kernel,
                                      .labeled = labeled,
                                      .batch = 4,
                                      .alpha = candidates.alpha})) {
      expected.push_back(group.rows[position]);
    }
    for (const Pick& pick : selection->picks) {
      if (pick.class_index == static_cast<ClassIndex>(c)) actual.push_back(pick.row);
    }
    EXPECT_EQ(actual, expected);
  }
}

}  // namespace
}  // namespace fulcrum::select
