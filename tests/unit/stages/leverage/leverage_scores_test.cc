#include "stages/leverage/leverage_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "stages/core/random.h"
#include "stages/leverage/leverage_engine.h"
#include "tests/support/data_sets.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

using kernel::KernelFunction;
using kernel::KernelType;

Matrix<double> KernelOf(ConstMatrixView points, const KernelFunction& function) {
  return testing::NaiveKernel(function, points, points);
}

LeverageScores Compute(const Matrix<double>& kernel, double tau, const std::string& engine) {
  auto scores = ComputeLeverage(linalg::DenseSymmetricOperator(kernel.view()), {.tau = tau, .engine = engine});
  EXPECT_TRUE(scores.ok()) << scores.status();
  return *std::move(scores);
}

TEST(Leverage, ScoresLieInTheUnitIntervalAndSumToTheRank) {
  const auto points = testing::RandomMatrix(400, 6, 1);
  for (const KernelFunction& function :
       {KernelFunction{.type = KernelType::kRbf, .sigma = 3}, KernelFunction{.type = KernelType::kLinear},
        KernelFunction{.type = KernelType::kPoly, .degree = 2}}) {
    for (const Engine& engine : Engines()) {
      if (engine.form == KernelForm::kLandmarks) continue;  // has tests of its own
      const auto result = Compute(KernelOf(points.view(), function), 0.6, engine.name);
      EXPECT_NEAR(std::accumulate(result.scores.begin(), result.scores.end(), 0.0),
                  static_cast<double>(result.eigen.rank), 1e-8);
      for (double score : result.scores) {
        EXPECT_GE(score, 0);
        EXPECT_LE(score, 1);
      }
    }
  }
}

TEST(Leverage, LinearKernelAtFullShareIsTheHatMatrix) {
  // For tau = 1 the scores of a linear kernel are the diagonal of X (X^T X)^-1 X^T, here with one feature: x^2 / sum
  // x^2.
  Matrix<double> points = testing::RandomMatrix(200, 1, 2);
  const auto result = Compute(KernelOf(points.view(), {.type = KernelType::kLinear}), 1.0, "auto");
  double squares = 0;
  for (std::size_t i = 0; i < 200; ++i) squares += points(i, 0) * points(i, 0);
  ASSERT_EQ(result.eigen.rank, 1u);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_NEAR(result.scores[i], points(i, 0) * points(i, 0) / squares, 1e-10);
}

TEST(Leverage, PermutingTheRowsPermutesTheScores) {
  const auto points = testing::RandomMatrix(300, 5, 3);
  std::vector<std::size_t> order(300);
  std::iota(order.begin(), order.end(), 0);
  Random(4).Shuffle(std::span(order));
  Matrix<double> permuted(300, 5);
  for (std::size_t i = 0; i < 300; ++i) std::copy_n(points.row(order[i]).data(), 5, permuted.row(i).data());
  const KernelFunction rbf{.type = KernelType::kRbf, .sigma = 4};
  const auto original = Compute(KernelOf(points.view(), rbf), 0.7, "auto");
  const auto shuffled = Compute(KernelOf(permuted.view(), rbf), 0.7, "auto");
  ASSERT_EQ(original.eigen.rank, shuffled.eigen.rank);
  for (std::size_t i = 0; i < 300; ++i) EXPECT_NEAR(shuffled.scores[i], original.scores[order[i]], 1e-8);
}

TEST(Leverage, EqualRowsShareOneUnit) {
  Matrix<double> points(120, 3);
  for (std::size_t i = 0; i < 120; ++i) std::fill_n(points.row(i).data(), 3, 1.0);
  const auto result = Compute(KernelOf(points.view(), {.type = KernelType::kRbf, .sigma = 1}), 0.5, "auto");
  EXPECT_EQ(result.eigen.rank, 1u);
  for (double score : result.scores) EXPECT_NEAR(score, 1.0 / 120, 1e-12);
}

TEST(Leverage, RealDataGiveTheKnownRank) {
  FULCRUM_SKIP_WITHOUT_DATA("twonorm_alevs2000.csv.gz");
  auto data = testing::LoadDataSet("twonorm_alevs2000.csv.gz");
  testing::StandardizeAndScaleToUnit(data->features.view());
  const auto kernel = KernelOf(data->features.view().Rows(0, 600), {.type = KernelType::kRbf, .sigma = 1});
  const auto dense = Compute(kernel, 0.5, "dense"), krylov = Compute(kernel, 0.5, "krylov");
  EXPECT_EQ(dense.eigen.rank, krylov.eigen.rank);
  for (std::size_t i = 0; i < 600; ++i) ASSERT_NEAR(dense.scores[i], krylov.scores[i], 1e-8);
}

TEST(LeverageBadInput, NamesTheSettingAndItsRange) {
  const auto kernel = KernelOf(testing::RandomMatrix(10, 2, 5).view(), {});
  const linalg::DenseSymmetricOperator matrix(kernel.view());
  for (double tau : {0.0, -0.1, 1.1, std::nan("")}) {
    const auto status = ComputeLeverage(matrix, {.tau = tau}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << tau;
    EXPECT_NE(status.message().find("tau"), std::string::npos);
  }
  EXPECT_NE(ComputeLeverage(matrix, {.engine = "quick"}).status().message().find("krylov"), std::string::npos);
}

TEST(LeverageBadInput, AZeroMatrixHasNothingToScore) {
  const Matrix<double> zero = Matrix<double>::Zero(20, 20);
  EXPECT_FALSE(ComputeLeverage(linalg::DenseSymmetricOperator(zero.view()), {}).ok());
}

}  // namespace
}  // namespace fulcrum::leverage
