#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>

#include "stages/core/random.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "tests/support/matrices.h"

namespace fulcrum::select {
namespace {

double SquaredDistance(ConstMatrixView x, std::size_t a, std::size_t b, Distance distance) {
  double norm_a = 0, norm_b = 0, squared = 0;
  for (std::size_t j = 0; j < x.cols(); ++j) {
    norm_a += x(a, j) * x(a, j);
    norm_b += x(b, j) * x(b, j);
  }
  for (std::size_t j = 0; j < x.cols(); ++j) {
    const bool angular = distance == Distance::kAngular;
    const double difference = x(a, j) / (angular ? std::sqrt(norm_a) : 1) - x(b, j) / (angular ? std::sqrt(norm_b) : 1);
    squared += difference * difference;
  }
  return squared;
}

/// The distance to the nearest eighth of the references.
double LocalScale(ConstMatrixView x, std::span<const RowIndex> references, RowIndex row) {
  std::vector<double> squared;
  for (const RowIndex other : references) squared.push_back(SquaredDistance(x, row, other, Distance::kEuclidean));
  std::ranges::sort(squared);
  return std::sqrt(squared[(squared.size() - 1) / 8]);
}

double SquaredDistance(ConstMatrixView x, const CoverageProblem& problem, RowIndex a, RowIndex b) {
  const double squared = SquaredDistance(x, a, b, problem.distance);
  if (problem.distance != Distance::kLocal) return squared;
  return squared / (LocalScale(x, problem.references, a) * LocalScale(x, problem.references, b));
}

/// The definition, every similarity computed for every pick.
std::vector<RowIndex> NaiveCover(ConstMatrixView x, const CoverageProblem& problem, RowList chosen) {
  std::vector<RowIndex> picks;
  const auto similarity = [&](RowIndex a, RowIndex b) {
    return std::exp(-SquaredDistance(x, problem, a, b) / (problem.width * problem.width));
  };
  while (picks.size() < problem.batch) {
    RowIndex best = 0;
    double best_gain = -1;
    for (const RowIndex row : problem.candidates) {
      if (std::ranges::find(picks, row) != picks.end()) continue;
      double gain = 0;
      for (std::size_t r = 0; r < problem.references.size(); ++r) {
        double covered = 0;
        for (const RowIndex other : chosen) covered = std::max(covered, similarity(other, problem.references[r]));
        gain += problem.weights[r] * std::max(similarity(row, problem.references[r]) - covered, 0.0);
      }
      if (gain > best_gain + 1e-9) {
        best = row;
        best_gain = gain;
      }
    }
    picks.push_back(best);
    chosen.push_back(best);
  }
  return picks;
}

class CoverageTest : public ::testing::TestWithParam<Distance> {
 protected:
  static constexpr std::size_t kRows = 70;

  explicit CoverageTest(std::uint64_t seed = 1) : features_(testing::RandomMatrix(kRows, 3, seed)) {
    Random random(seed);
    for (RowIndex row = 0; row < kRows; ++row) {
      if (row < 5) labeled_.push_back(row);
      if (row >= 5) candidates_.push_back(row);
      if (row % 2 == 0) references_.push_back(row);
    }
    for (std::size_t r = 0; r < references_.size(); ++r) weights_.push_back(random.Uniform());
    scales_ = std::make_unique<LocalScales>(features_, references_);
    nearest_ = NearestSquaredDistances(features_, GetParam(), references_, labeled_, scales_.get());
  }

  CoverageProblem Problem(std::size_t batch) const {
    return {.features = &features_,
            .distance = GetParam(),
            .scales = scales_.get(),
            .width = 0.7,
            .references = references_,
            .weights = weights_,
            .nearest = nearest_,
            .candidates = candidates_,
            .batch = batch};
  }

  static std::vector<RowIndex> Rows(const std::vector<Pick>& picks) {
    std::vector<RowIndex> rows;
    for (const Pick& pick : picks) rows.push_back(pick.row);
    return rows;
  }

  const kernel::DenseFeatures features_;
  RowList labeled_, candidates_, references_;
  std::unique_ptr<LocalScales> scales_;
  std::vector<double> weights_, nearest_;
};

TEST_P(CoverageTest, DistancesToTheNearestAreThoseOfAllPairs) {
  for (std::size_t r = 0; r < references_.size(); ++r) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const RowIndex row : labeled_) {
      nearest = std::min(nearest, SquaredDistance(features_.values(), Problem(1), references_[r], row));
    }
    EXPECT_NEAR(nearest_[r], nearest, GetParam() == Distance::kLocal ? 1e-4 * nearest : 1e-12);
  }
  EXPECT_EQ(NearestSquaredDistances(features_, GetParam(), references_, {}, scales_.get())[3],
            std::numeric_limits<double>::infinity());
}

TEST_P(CoverageTest, EqualsTheNaiveRule) {
  const CoverageProblem problem = Problem(12);
  const auto picks = MaximizeCoverage(problem);
  ASSERT_TRUE(picks.ok()) << picks.status();
  EXPECT_EQ(Rows(*picks), NaiveCover(features_.values(), problem, labeled_));
  for (std::size_t i = 1; i < picks->size(); ++i) EXPECT_LE((*picks)[i].gain, (*picks)[i - 1].gain * (1 + 1e-5));
}

TEST_P(CoverageTest, SparseFeaturesGiveTheSameBatch) {
  SparseMatrix values;
  values.cols = 3;
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::int32_t j = 0; j < 3; ++j) {
      values.columns.push_back(j);
      values.values.push_back(features_.values()(i, static_cast<std::size_t>(j)));
    }
    values.offsets.push_back(values.values.size());
  }
  const kernel::SparseFeatures sparse(std::move(values));
  const LocalScales scales(sparse, references_);
  CoverageProblem problem = Problem(12);
  const auto expected = MaximizeCoverage(problem);
  problem.features = &sparse;
  problem.scales = &scales;
  EXPECT_EQ(Rows(*MaximizeCoverage(problem)), Rows(*expected));
}

TEST_P(CoverageTest, ABatchThatCoversEverythingStartsAgain) {
  CoverageProblem problem = Problem(40);
  problem.width = 1e-3;  // every reference is covered by itself alone
  const auto picks = MaximizeCoverage(problem);
  ASSERT_TRUE(picks.ok()) << picks.status();
  const std::vector<RowIndex> rows = Rows(*picks);
  EXPECT_EQ(std::set<RowIndex>(rows.begin(), rows.end()).size(), 40u);
  // First what is a reference and not labeled, by weight.
  for (std::size_t i = 0; i < references_.size() - 3; ++i) EXPECT_EQ(rows[i] % 2, 0u) << i;
}

TEST_P(CoverageTest, ALargePoolIsRepresentedByASampleThatGrowsWithTheLabels) {
  EXPECT_EQ(SampleReferences(500, 10, 1).size(), 500u);
  const RowList few = SampleReferences(100000, 10, 1), many = SampleReferences(100000, 1000, 1);
  EXPECT_EQ(few.size(), 1024u);
  EXPECT_EQ(many.size(), 4000u);
  EXPECT_EQ(SampleReferences(100000, 100000, 1).size(), 8192u);
  EXPECT_TRUE(std::ranges::includes(many, few));
  EXPECT_EQ(SampleReferences(100000, 11, 1), few);
  EXPECT_NE(SampleReferences(100000, 10, 2), few);
}

INSTANTIATE_TEST_SUITE_P(Distances, CoverageTest,
                         ::testing::Values(Distance::kEuclidean, Distance::kAngular, Distance::kLocal));

TEST(LocalScalesTest, AreDistancesToTheNearestEighthWhateverElseIsAsked) {
  const kernel::DenseFeatures features(testing::RandomMatrix(2000, 4, 1));
  RowList few(200), all(2000);
  std::iota(few.begin(), few.end(), RowIndex{0});
  std::iota(all.begin(), all.end(), RowIndex{0});
  const LocalScales scales(features, few);
  const std::vector<double> of_all = scales.Of(all);
  for (const RowIndex row : {RowIndex{0}, RowIndex{77}, RowIndex{1999}}) {
    const double expected = LocalScale(features.values(), few, row);
    EXPECT_NEAR(of_all[row], expected, 2e-5 * expected);
    EXPECT_EQ(scales.Of(std::span(&row, 1))[0], of_all[row]);
  }
  // Of many references a sample is looked at.
  const std::vector<double> sampled = LocalScales(features, all).Of(few);
  for (std::size_t row = 0; row < 200; ++row) EXPECT_NEAR(sampled[row] / of_all[row], 1, 0.5) << row;
}

TEST(LocalScalesTest, CopiesHaveAScale) {
  Matrix<double> values = Matrix<double>::Zero(100, 2);
  for (std::size_t row = 80; row < 100; ++row) values(row, 0) = static_cast<double>(row);
  const kernel::DenseFeatures features(std::move(values));
  RowList all(100);
  std::iota(all.begin(), all.end(), RowIndex{0});
  EXPECT_GT(LocalScales(features, all).Of(all)[0], 0);
  EXPECT_EQ(LocalScales(features, RowList{0, 1, 2}).Of(RowList{3})[0], 1);
}

}  // namespace
}  // namespace fulcrum::select
