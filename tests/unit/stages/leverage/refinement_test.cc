#include <algorithm>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "stages/leverage/landmarks.h"
#include "stages/leverage/leverage_scores.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

constexpr kernel::KernelFunction kRefinedRbf{.type = kernel::KernelType::kRbf, .sigma = 4};
constexpr std::size_t kRefinedRows = 900;
constexpr double kTau = 0.6;

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

/// A class of 900 rows, its kernel and its exact scores.
class RefinementTest : public ::testing::Test {
 protected:
  RefinementTest() { std::iota(rows_.begin(), rows_.end(), RowIndex{0}); }

  /// The leading vectors, a vector a row, with noise of this part of their length.
  Matrix<double> Disturbed(std::size_t count, double noise) const {
    Matrix<double> vectors = Matrix<double>::CopyOf(exact_.eigen.vectors.view().Rows(0, count));
    const Matrix<double> random = testing::RandomMatrix(count, kRefinedRows, 5);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < kRefinedRows; ++j) vectors(i, j) += noise / std::sqrt(kRefinedRows) * random(i, j);
    }
    return vectors;
  }
  absl::StatusOr<RefinedScores> RefineFrom(const Matrix<double>& vectors) const {
    Matrix<float> start(kRefinedRows, vectors.rows());
    for (std::size_t i = 0; i < kRefinedRows; ++i) {
      for (std::size_t j = 0; j < vectors.rows(); ++j) start(i, j) = static_cast<float>(vectors(j, i));
    }
    const RowList sample = {3, 255, 256, 700};
    return Refine(kRefinedRbf, features_, rows_, start.view(), request_, sample, BlocksInTurns());
  }
  std::size_t vectors() const { return exact_.eigen.vectors.rows(); }
  double mean() const { return static_cast<double>(exact_.eigen.rank) / kRefinedRows; }

  const Matrix<double> points_ = testing::RandomMatrix(kRefinedRows, 5, 1);
  const kernel::DenseFeatures features_{points_.Clone()};
  const Matrix<double> kernel_ = testing::NaiveKernel(kRefinedRbf, points_.view(), points_.view());
  const linalg::DenseSymmetricOperator operator_{kernel_.view()};
  const LeverageScores exact_ = *ComputeLeverage(operator_, {.tau = kTau, .engine = "krylov"});
  const RefinementRequest request_{.trace = kRefinedRows, .tau = kTau};
  RowList rows_ = RowList(kRefinedRows);
};

TEST_F(RefinementTest, LeavesExactVectorsAsTheyAre) {
  const auto refined = RefineFrom(Disturbed(vectors(), 0));
  ASSERT_TRUE(refined.ok()) << refined.status();
  EXPECT_EQ(refined->rank, exact_.eigen.rank);
  EXPECT_NEAR(refined->trace_share, exact_.eigen.trace_share, 1e-6);
  EXPECT_LT(LargestDifference(refined->pass.scores, exact_.scores), 1e-4 * mean());
  EXPECT_LT(refined->pass.residual, 1e-5);
}

TEST_F(RefinementTest, TakesAwayNearlyAllThatIsWrongWithThem) {
  const Matrix<double> start = Disturbed(vectors(), 0.2);
  const double before = LargestDifference(ScoresFromVectors(start.view(), exact_.eigen.rank), exact_.scores);
  const auto refined = RefineFrom(start);
  ASSERT_TRUE(refined.ok()) << refined.status();
  EXPECT_EQ(refined->rank, exact_.eigen.rank);
  EXPECT_GT(before, 0.2 * mean()) << "there is something to improve";
  EXPECT_LT(LargestDifference(refined->pass.scores, exact_.scores), before / 10);
  EXPECT_NEAR(std::accumulate(refined->pass.scores.begin(), refined->pass.scores.end(), 0.0),
              static_cast<double>(refined->rank), 1e-3);
}

TEST_F(RefinementTest, IsTheSameWithTheKernelInMemory) {
  const Matrix<double> start = Disturbed(vectors(), 0.2);
  const auto streamed = RefineFrom(start);
  const auto in_memory = RefineInMemory(operator_, start.view(), request_);
  ASSERT_TRUE(streamed.ok() && in_memory.ok()) << streamed.status() << in_memory.status();
  EXPECT_LT(LargestDifference(streamed->pass.scores, *in_memory), 1e-3 * mean());
}

TEST_F(RefinementTest, TheResidualTellsGoodVectorsFromBadOnes) {
  const auto good = RefineFrom(Disturbed(vectors(), 0.01)), bad = RefineFrom(Disturbed(vectors(), 0.5));
  ASSERT_TRUE(good.ok() && bad.ok()) << good.status() << bad.status();
  EXPECT_LT(10 * good->pass.residual, bad->pass.residual);
}

TEST(VectorsToRefine, AreThoseThatHaveASayInTheLastOneThatCounts) {
  linalg::TopEigen eigen;
  eigen.rank = 3;
  eigen.values = {100, 50, 10};
  eigen.vectors = testing::RandomMatrix(6, 8, 1);
  eigen.multiplied = eigen.vectors.Clone();
  // What is beyond the rank has its value from its product: 8, 1 and 0.2 where 0.5 is asked for.
  for (std::size_t i = 3; i < 6; ++i) {
    const double value = i == 3 ? 8 : i == 4 ? 1 : 0.2;
    double square = 0;
    for (const double x : eigen.vectors.row(i)) square += x * x;
    for (double& x : eigen.multiplied.row(i)) x *= value / square;
  }
  EXPECT_EQ(VectorsToRefine(eigen), 5u);
  eigen.values = {1e6, 50, 10};
  EXPECT_EQ(VectorsToRefine(eigen), 0u) << "the last cannot be told from the rounding of the first";
}

TEST(VectorsToRefine, OfALargeRankThereAreNone) {
  linalg::TopEigen eigen;
  eigen.rank = 250;
  eigen.values.assign(250, 1.0);
  eigen.vectors = testing::RandomMatrix(250, 300, 1);
  EXPECT_EQ(VectorsToRefine(eigen), 0u);
  eigen.rank = 200;
  EXPECT_EQ(VectorsToRefine(eigen), 250u);
}

TEST(IsRefinable, IsForClassesOfSomeTenThousandRows) {
  EXPECT_TRUE(IsRefinable(10000, 20));
  EXPECT_TRUE(IsRefinable(50000, 64));
  EXPECT_FALSE(IsRefinable(100000, 64));
  EXPECT_FALSE(IsRefinable(500000, 64));
  EXPECT_FALSE(IsRefinable(50000, 784)) << "features count";
}

}  // namespace
}  // namespace fulcrum::leverage
