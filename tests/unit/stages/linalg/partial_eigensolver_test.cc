#include <gtest/gtest.h>

#include <cmath>

#include "stages/kernel/kernel_function.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

Matrix<double> Rbf(std::size_t size, double sigma) {
  const Matrix<double> points = testing::RandomMatrix(size, 6, 4);
  return testing::NaiveKernel({.sigma = sigma}, points.view(), points.view());
}

std::vector<double> PartialScores(const TopEigen& top) {
  std::vector<double> scores(top.vectors.cols(), 0.0);
  for (std::size_t i = 0; i < top.rank; ++i) {
    for (std::size_t j = 0; j < scores.size(); ++j) scores[j] += top.vectors(i, j) * top.vectors(i, j);
  }
  return scores;
}

TEST(PartialEigensolver, EqualsTheFullDecomposition) {
  for (const std::size_t size : {1, 2, 7, 150}) {
    const Matrix<double> matrix = Rbf(size, 2);
    for (const double tau : {0.2, 0.6, 0.95}) {
      const auto partial = SolveTopEigenPartial(matrix.view(), {.tau = tau});
      const auto full = SolveTopEigenDense(matrix.view(), {.tau = tau});
      ASSERT_TRUE(partial.ok()) << partial.status();
      ASSERT_EQ(partial->rank, full->rank);
      EXPECT_LT(partial->residual, 1e-12);
      EXPECT_NEAR(partial->trace_share, full->trace_share, 1e-12);
      for (std::size_t i = 0; i < full->rank; ++i) {
        EXPECT_NEAR(partial->values[i], full->values[i], 1e-11);
        EXPECT_NEAR(Norm(partial->vectors.row(i)), 1, 1e-12);
        for (std::size_t j = 0; j < i; ++j) {
          EXPECT_NEAR(Dot(partial->vectors.row(i), partial->vectors.row(j)), 0, 1e-10);
        }
      }
      const std::vector<double> expected = PartialScores(*full), scores = PartialScores(*partial);
      for (std::size_t j = 0; j < size; ++j) EXPECT_NEAR(scores[j], expected[j], 1e-9);
    }
  }
}

TEST(PartialEigensolver, AllOfTheTraceTakesAllVectors) {
  const auto top = SolveTopEigenPartial(Rbf(40, 0.1).view(), {.tau = 1});
  ASSERT_TRUE(top.ok());
  EXPECT_EQ(top->rank, 40u);
  for (const double score : PartialScores(*top)) EXPECT_NEAR(score, 1, 1e-10);
}

}  // namespace
}  // namespace fulcrum::linalg
