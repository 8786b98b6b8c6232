#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

Matrix<double> RandomSymmetric(std::size_t size) {
  const auto factor = testing::RandomMatrix(size, size, 9);
  Matrix<double> matrix(size, size);
  Gemm(Transpose::kNo, Transpose::kYes, 1.0, factor.view(), factor.view(), 0.0, matrix.view());
  return matrix;
}

TEST(DecomposeSymmetric, VectorsAreOrthonormalAndResidualsSmall) {
  constexpr std::size_t kSize = 120;
  const Matrix<double> matrix = RandomSymmetric(kSize);
  const auto eigen = DecomposeSymmetric(matrix.Clone());
  ASSERT_TRUE(eigen.ok()) << eigen.status();
  const double scale = eigen->values.back();
  for (std::size_t i = 0; i < kSize; ++i) {
    std::vector<double> product(kSize);
    Gemv(Transpose::kNo, 1.0, matrix.view(), eigen->vectors.row(i), 0.0, product);
    for (std::size_t j = 0; j < kSize; ++j) {
      EXPECT_NEAR(product[j], eigen->values[i] * eigen->vectors(i, j), 1e-12 * scale);
      EXPECT_NEAR(Dot(eigen->vectors.row(i), eigen->vectors.row(j)), i == j ? 1 : 0, 1e-12);
    }
  }
}

TEST(RankForShare, IsTheSmallestRankThatReachesTau) {
  const std::vector<double> values{4, 3, 2, 1};
  EXPECT_EQ(RankForShare(values, 10, 0.4), 1u);
  EXPECT_EQ(RankForShare(values, 10, 0.41), 2u);
  EXPECT_EQ(RankForShare(values, 10, 0.7), 2u);
  EXPECT_EQ(RankForShare(values, 10, 1.0), 4u);
}

TEST(RankForShare, CountsNegativeRoundingAsZero) {
  EXPECT_EQ(RankForShare(std::vector<double>{1, 1, -1e-17, -1e-17}, 2, 1.0), 2u);
}

TEST(SolveTopEigenDense, ReportsAResidualThatIsSmall) {
  const Matrix<double> matrix = RandomSymmetric(60);
  const auto top = SolveTopEigenDense(matrix.view(), {.tau = 0.5});
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_LT(top->residual, 1e-13);
  EXPECT_GE(top->trace_share, 0.5);
  EXPECT_EQ(top->values.size(), top->rank);
}

TEST(DenseEigensolver, RefusesMoreRowsThanItsWorkspaceCanCount) {
  // One column: refused before anything is read.
  const auto full = DecomposeSymmetric(Matrix<double>(kMostDenseRows + 1, 1));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(full.status().message().find("46340"), std::string::npos) << full.status();
}

}  // namespace
}  // namespace fulcrum::linalg
