#include <gtest/gtest.h>

#include <algorithm>

#include "stages/linalg/blas.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

/// B B' + I.
Matrix<double> PositiveDefinite(std::size_t size, std::uint64_t seed) {
  const Matrix<double> factor = testing::RandomMatrix(size, size + 2, seed);
  Matrix<double> matrix(size, size);
  Gemm(Transpose::kNo, Transpose::kYes, 1.0, factor.view(), factor.view(), 0.0, matrix.view());
  for (std::size_t i = 0; i < size; ++i) matrix(i, i) += 1;
  return matrix;
}

TEST(CholeskyTest, TheFactorTimesItselfIsTheMatrix) {
  for (const std::size_t size : {1, 2, 7, 40}) {
    const Matrix<double> matrix = PositiveDefinite(size, size);
    const auto lower = FactorCholesky(matrix.Clone());
    ASSERT_TRUE(lower.ok()) << lower.status();
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        double product = 0;
        for (std::size_t k = 0; k <= std::min(i, j); ++k) product += (*lower)(i, k) * (*lower)(j, k);
        EXPECT_NEAR(product, matrix(i, j), 1e-11 * static_cast<double>(size));
      }
    }
  }
}

TEST(CholeskyTest, BothSolvesTogetherInvertTheMatrix) {
  const Matrix<double> matrix = PositiveDefinite(12, 3);
  const auto lower = FactorCholesky(matrix.Clone());
  ASSERT_TRUE(lower.ok());
  const Matrix<double> right = testing::RandomMatrix(5, 12, 4);
  Matrix<double> solution = right.Clone();
  SolveLowerForRows(lower->view(), solution.view());
  SolveLowerTransposedForRows(lower->view(), solution.view());
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(Dot(matrix.row(i), solution.row(row)), right(row, i), 1e-11);
  }
}

TEST(CholeskyTest, SolveLowerForRowsIsForwardSubstitution) {
  const auto lower = FactorCholesky(PositiveDefinite(6, 5));
  ASSERT_TRUE(lower.ok());
  const Matrix<double> right = testing::RandomMatrix(1, 6, 6);
  Matrix<double> solution = right.Clone();
  SolveLowerForRows(lower->view(), solution.view());
  for (std::size_t i = 0; i < 6; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j <= i; ++j) sum += (*lower)(i, j) * solution(0, j);
    EXPECT_NEAR(sum, right(0, i), 1e-12);
  }
}

TEST(CholeskyTest, RejectsAMatrixThatIsNotPositiveDefinite) {
  Matrix<double> matrix = PositiveDefinite(4, 7);
  matrix(2, 2) = -1;
  EXPECT_EQ(FactorCholesky(std::move(matrix)).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CholeskyTest, NothingIsFine) {
  EXPECT_TRUE(FactorCholesky(Matrix<double>()).ok());
}

}  // namespace
}  // namespace fulcrum::linalg
