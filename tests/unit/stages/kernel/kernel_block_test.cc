#include <numeric>

#include "gtest/gtest.h"
#include "stages/core/random.h"
#include "stages/kernel/kernel_tiles.h"
#include "tests/support/matrices.h"

namespace fulcrum::kernel {
namespace {

using testing::NaiveKernel;
using testing::RandomMatrix;

const KernelFunction kFunctions[] = {
    {.type = KernelType::kRbf, .sigma = 3},
    {.type = KernelType::kLinear},
    {.type = KernelType::kLinear, .normalize = true},
    {.type = KernelType::kPoly, .offset = 1, .degree = 4},
    {.type = KernelType::kPoly, .offset = 0.5, .degree = 3, .normalize = true},
    {.type = KernelType::kCosine},
};

RowList ShuffledRows(std::size_t count, std::uint64_t seed) {
  RowList rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  Random(seed).Shuffle(std::span(rows));
  return rows;
}

class KernelBlock : public ::testing::TestWithParam<KernelFunction> {};

TEST_P(KernelBlock, EqualsTheTextbookFormulaForAnyRows) {
  // More than one tile either way, and rows that do not lie side by side.
  const Matrix<double> points = RandomMatrix(600, 9, 1);
  const DenseFeatures features(points.Clone());
  const Matrix<double> expected = NaiveKernel(GetParam(), points.view(), points.view());
  const RowList a = ShuffledRows(600, 2), b = ShuffledRows(300, 3);
  Matrix<double> block(a.size(), b.size());
  ComputeKernelBlock(GetParam(), features, a, b, block.view());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      const double value = expected(a[i], b[j]);
      ASSERT_NEAR(block(i, j), value, 1e-12 * std::max(1.0, std::abs(value))) << DescribeKernel(GetParam());
    }
  }
}

TEST_P(KernelBlock, SymmetricIsExactlySymmetricAndEqualsTheFormula) {
  const Matrix<double> points = RandomMatrix(530, 9, 4);
  const DenseFeatures features(points.Clone());
  const RowList rows = ShuffledRows(530, 5);
  Matrix<double> block(530, 530);
  ComputeKernelSymmetric(GetParam(), features, rows, block.view());
  const Matrix<double> expected = NaiveKernel(GetParam(), points.view(), points.view());
  for (std::size_t i = 0; i < 530; ++i) {
    for (std::size_t j = 0; j < 530; ++j) {
      ASSERT_EQ(block(i, j), block(j, i));
      const double value = expected(rows[i], rows[j]);
      ASSERT_NEAR(block(i, j), value, 1e-12 * std::max(1.0, std::abs(value)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, KernelBlock, ::testing::ValuesIn(kFunctions));

TEST(KernelBlockBetweenSets, TakesColumnsFromTheOtherSet) {
  const Matrix<double> points = RandomMatrix(20, 4, 6), others = RandomMatrix(10, 4, 7);
  const DenseFeatures features(points.Clone()), other_features(others.Clone());
  const KernelFunction rbf{.type = KernelType::kRbf, .sigma = 2};
  Matrix<double> block(2, 3);
  ComputeKernelBlock(rbf, features, RowList{19, 4}, other_features, RowList{0, 9, 5}, block.view());
  EXPECT_NEAR(block(1, 1), NaiveKernel(rbf, points.view(), others.view())(4, 9), 1e-13);
}

TEST(KernelBlockOfZeroRows, CosineOfAZeroRowIsZeroNotNan) {
  const DenseFeatures features(Matrix<double>::Zero(3, 2));
  Matrix<double> block(3, 3);
  ComputeKernelSymmetric({.type = KernelType::kCosine}, features, RowList{0, 1, 2}, block.view());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(block(0, i), 0);
}

TEST(KernelBlockOfEqualRows, RbfNeverExceedsOne) {
  Matrix<double> points(300, 50);
  const auto row = RandomMatrix(1, 50, 8);
  for (std::size_t i = 0; i < 300; ++i) std::copy_n(row.row(0).data(), 50, points.row(i).data());
  const DenseFeatures features(std::move(points));
  Matrix<double> block(300, 300);
  ComputeKernelSymmetric({.type = KernelType::kRbf, .sigma = 0.1}, features, ShuffledRows(300, 1), block.view());
  for (std::size_t i = 0; i < 300; ++i) {
    for (double value : block.row(i)) ASSERT_LE(value, 1.0);
  }
}

}  // namespace
}  // namespace fulcrum::kernel
