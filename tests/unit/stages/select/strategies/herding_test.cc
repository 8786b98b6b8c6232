// The strategies that cover the pool: herding, uncertainty-herding and adaptive-herding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stages/core/random.h"
#include "stages/select/strategy.h"
#include "tests/unit/stages/select/posterior/gaussian_process_reference.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

double SquaredDistance(ConstMatrixView x, std::size_t a, std::size_t b, bool unit) {
  double norms[2] = {0, 0}, squared = 0;
  for (std::size_t j = 0; j < x.cols(); ++j) {
    norms[0] += x(a, j) * x(a, j);
    norms[1] += x(b, j) * x(b, j);
  }
  for (std::size_t j = 0; j < x.cols(); ++j) {
    const double difference = unit ? x(a, j) / std::sqrt(norms[0]) - x(b, j) / std::sqrt(norms[1]) : x(a, j) - x(b, j);
    squared += difference * difference;
  }
  return squared;
}

/// The distance to the nearest eighth of all rows.
double LocalScale(ConstMatrixView x, std::size_t row) {
  std::vector<double> squared;
  for (std::size_t other = 0; other < x.rows(); ++other) squared.push_back(SquaredDistance(x, row, other, false));
  std::ranges::sort(squared);
  return std::sqrt(squared[(x.rows() - 1) / 8]);
}

/// Squared local distances of all pairs.
Matrix<double> LocalDistances(ConstMatrixView x) {
  Matrix<double> local(x.rows(), x.rows());
  for (std::size_t a = 0; a < x.rows(); ++a) {
    for (std::size_t b = 0; b < x.rows(); ++b) {
      local(a, b) = SquaredDistance(x, a, b, false) / (LocalScale(x, a) * LocalScale(x, b));
    }
  }
  return local;
}

struct Rule {
  double width = 1;
  std::vector<double> weights = {};
  bool unit = false;
};

/// All rows are references; everything is computed for every pick.
std::vector<RowIndex> NaiveHerding(const SmallPool& pool, const Candidates& candidates, const Rule& rule) {
  RowList chosen = LabeledRows(candidates.labels);
  std::vector<RowIndex> picks;
  const Matrix<double> local = LocalDistances(pool.features());
  const auto similarity = [&](std::size_t a, std::size_t b) {
    const double squared = rule.unit ? SquaredDistance(pool.features(), a, b, true) : local(a, b);
    return std::exp(-squared / (rule.width * rule.width));
  };
  while (picks.size() < candidates.batch) {
    double best_gain = -1;
    RowIndex best = 0;
    for (const RowIndex row : UnlabeledRows(candidates.labels)) {
      if (std::ranges::find(picks, row) != picks.end()) continue;
      double gain = 0;
      for (std::size_t r = 0; r < candidates.labels.size(); ++r) {
        double covered = 0;
        for (const RowIndex other : chosen) covered = std::max(covered, similarity(other, r));
        gain += rule.weights[r] * std::max(similarity(row, r) - covered, 0.0);
      }
      if (gain > best_gain + 1e-9) {
        best_gain = gain;
        best = row;
      }
    }
    picks.push_back(best);
    chosen.push_back(best);
  }
  return picks;
}

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

TEST(HerdingTest, CoversThePoolWithTheWidthOfItsMedianDistance) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SmallPool pool({.rows = 60, .labels_per_class = seed % 3, .seed = seed});
    const Candidates candidates = pool.candidates(9);
    const Matrix<double> local = LocalDistances(pool.features());
    std::vector<double> distances;
    for (std::size_t i = 0; i < 60; ++i) {
      for (std::size_t j = 0; j < i; ++j) distances.push_back(local(i, j));
    }
    const Rule rule{.width = std::sqrt(MedianOf(distances) / 2), .weights = std::vector<double>(60, 1.0)};
    const auto selection = MakeHerding()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(RowsOf(*selection), NaiveHerding(pool, candidates, rule)) << seed;
  }
}

TEST(HerdingTest, CoversAClassThatIsSpreadOutAroundAnotherOne) {
  // In twenty dimensions the rows of the outer class are closer to the middle than to each other.
  constexpr std::size_t kRows = 600;
  Random random(1);
  Matrix<double> values(kRows, 20);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (double& value : values.row(row)) value = random.Normal() * (row % 2 == 0 ? 1 : 2);
  }
  const kernel::DenseFeatures features(std::move(values));
  const std::vector<ClassIndex> labels(kRows, kUnlabeled);
  Candidates candidates;
  candidates.features = &features;
  candidates.class_count = 2;
  candidates.labels = labels;
  candidates.batch = 20;
  const auto selection = MakeHerding()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  const auto outer = std::ranges::count_if(RowsOf(*selection), [](RowIndex row) { return row % 2 == 1; });
  EXPECT_GE(outer, 4);
  EXPECT_LE(outer, 16);
}

TEST(HerdingTest, AnOutlierIsNotWhatCoversThePool) {
  Random random(1);
  Matrix<double> values(300, 5);
  for (std::size_t row = 0; row < 300; ++row) {
    for (double& value : values.row(row)) value = random.Normal() * (row < 3 ? 1000 : 1);
  }
  const kernel::DenseFeatures features(std::move(values));
  const std::vector<ClassIndex> labels(300, kUnlabeled);
  Candidates candidates;
  candidates.features = &features;
  candidates.class_count = 2;
  candidates.labels = labels;
  candidates.batch = 10;
  const auto selection = MakeHerding()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  for (const RowIndex row : RowsOf(*selection)) EXPECT_GE(row, 3u);
}

TEST(UncertaintyHerdingTest, EqualsThePublishedRule) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SmallPool pool({.rows = 60, .classes = 3, .seed = seed});
    const Candidates candidates = pool.candidates(9);
    Rule rule;
    rule.unit = true;
    for (std::size_t i = 0; i < 60; ++i) {
      std::vector<double> p(candidates.probabilities.row(i).begin(), candidates.probabilities.row(i).end());
      std::ranges::sort(p, std::greater<>());
      rule.weights.push_back(1 - (p[0] - p[1]));
    }
    for (std::size_t i = 0; i < 6; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        rule.width = std::min(rule.width, std::sqrt(SquaredDistance(pool.features(), i, j, true)));
      }
    }
    const auto selection = MakeUncertaintyHerding()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(RowsOf(*selection), NaiveHerding(pool, candidates, rule)) << seed;
  }
}

/// The rule of adaptive-herding, with a width found by trying many.
Rule AdaptiveRule(const SmallPool& pool, const Candidates& candidates, const std::vector<double>& margins) {
  const std::size_t rows = candidates.labels.size();
  Rule rule;
  for (std::size_t i = 0; i < rows; ++i) {
    double larger = 0;
    for (std::size_t j = 0; j < rows; ++j) larger += j != i && margins[j] > margins[i] ? 1 : 0;
    // Two labels per class.
    rule.weights.push_back(std::pow(larger / static_cast<double>(rows - 1), 2));
  }
  const Matrix<double> local = LocalDistances(pool.features());
  double least_error = 1;
  for (double width = 0.01; width < 30; width *= 1.0005) {
    double mean = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      double nearest = 1e300;
      for (const RowIndex row : LabeledRows(candidates.labels)) nearest = std::min(nearest, local(i, row));
      mean += std::exp(-nearest / (width * width)) / static_cast<double>(rows);
    }
    if (std::abs(mean - 0.5) > least_error) continue;
    least_error = std::abs(mean - 0.5);
    rule.width = width;
  }
  return rule;
}

TEST(AdaptiveHerdingTest, CoversTheDoubtWithTheWidthAtWhichHalfOfThePoolIsCovered) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const SmallPool pool({.rows = 60, .classes = 3, .seed = seed});
    const Candidates candidates = pool.candidates(9);
    const std::vector<double> margins(candidates.margin.begin(), candidates.margin.end());
    const auto selection = MakeAdaptiveHerding()->Select(candidates);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(RowsOf(*selection), NaiveHerding(pool, candidates, AdaptiveRule(pool, candidates, margins))) << seed;
  }
}

TEST(AdaptiveHerdingTest, WithoutMarginsItsDoubtsAreThoseOfLeastSquares) {
  const SmallPool pool({.rows = 60, .seed = 3});
  Candidates candidates = pool.candidates(9);
  const std::vector<RowIndex> with_margins = RowsOf(*MakeAdaptiveHerding()->Select(candidates));
  candidates.margin = {};
  // Two labels per class: balanced targets are +1 and -1.
  const GaussianProcessReference process(pool, candidates, LabeledRows(candidates.labels), 0.1);
  std::vector<double> margins;
  for (RowIndex row = 0; row < 60; ++row) margins.push_back(std::abs(process.Mean(candidates, 0, row)));
  const auto selection = MakeAdaptiveHerding()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(RowsOf(*selection), NaiveHerding(pool, candidates, AdaptiveRule(pool, candidates, margins)));
  EXPECT_NE(RowsOf(*selection), with_margins);
}

TEST(AdaptiveHerdingTest, WithoutLabelsItIsHerding) {
  const SmallPool pool({.rows = 60, .labels_per_class = 0, .seed = 3});
  EXPECT_EQ(RowsOf(*MakeAdaptiveHerding()->Select(pool.candidates(5))),
            RowsOf(*MakeHerding()->Select(pool.candidates(5))));
}

TEST(AdaptiveHerdingTest, CopiesOfTheLabeledRowsDoNotDecideTheWidth) {
  // Nine in ten rows are copies of the first; the rest are spread out, and the batch comes from these.
  Matrix<double> values = Matrix<double>::Zero(100, 2);
  for (std::size_t i = 90; i < 100; ++i) values(i, 0) = static_cast<double>(i) * (i % 2 == 0 ? 1 : -1);
  const kernel::DenseFeatures features(std::move(values));
  std::vector<ClassIndex> labels(100, kUnlabeled);
  labels[0] = 0;
  labels[90] = 1;
  const std::vector<double> margin(100, 1.0);
  Candidates candidates;
  candidates.features = &features;
  candidates.class_count = 2;
  candidates.labels = labels;
  candidates.margin = margin;
  candidates.batch = 5;
  const auto selection = MakeAdaptiveHerding()->Select(candidates);
  ASSERT_TRUE(selection.ok()) << selection.status();
  for (const RowIndex row : RowsOf(*selection)) EXPECT_GT(row, 90u);
}

}  // namespace
}  // namespace fulcrum::select
