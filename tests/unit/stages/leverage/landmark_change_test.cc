#include <cmath>

#include "gtest/gtest.h"
#include "stages/core/random.h"
#include "stages/leverage/landmarks.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/top_eigen.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

TEST(LargestChange, IsTheNormOfTheDifference) {
  const Matrix<double> before = testing::RandomMatrix(4, 30, 1);
  Matrix<double> now = testing::RandomMatrix(5, 30, 2);
  // All but one row as before: the rows of both nearly depend on each other.
  for (std::size_t i = 0; i < 4; ++i) std::copy_n(before.row(i).data(), 30, now.row(i).data());
  now(0, 3) += 1e-3;
  Matrix<double> difference(30, 30);
  linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, 1.0, now.view(), now.view(), 0.0, difference.view());
  linalg::Gemm(linalg::Transpose::kYes, linalg::Transpose::kNo, -1.0, before.view(), before.view(), 1.0,
               difference.view());
  const auto values = linalg::DecomposeSymmetric(std::move(difference))->values;
  const double expected = std::max(std::abs(values.front()), std::abs(values.back()));
  const auto change = LargestChange(now.view(), before.view());
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_NEAR(*change, expected, 1e-9 * expected);
}

TEST(LargestChange, BoundsEveryScore) {
  const Matrix<double> before = testing::RandomMatrix(3, 20, 3);
  Matrix<double> now = before.Clone();
  for (double& value : now.row(1)) value *= 1.05;
  const double bound = *LargestChange(now.view(), before.view());
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> z(20);
    for (double& value : z) value = random.Normal();
    const double length = linalg::Norm(z);
    double moved = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      moved += std::pow(linalg::Dot(now.row(j), z) / length, 2) - std::pow(linalg::Dot(before.row(j), z) / length, 2);
    }
    EXPECT_LE(std::abs(moved), bound * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace fulcrum::leverage
