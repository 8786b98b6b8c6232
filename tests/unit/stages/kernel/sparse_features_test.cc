#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/core/random.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::kernel {
namespace {

/// About `share` of the elements, the others zero; every seventh row has none.
SparseMatrix RandomSparse(std::size_t rows, std::size_t cols, double share, std::uint64_t seed) {
  Random random(seed);
  SparseMatrix matrix;
  matrix.cols = cols;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols && row % 7 != 6; ++col) {
      if (random.Uniform() >= share) continue;
      matrix.columns.push_back(static_cast<std::int32_t>(col));
      matrix.values.push_back(random.Normal());
    }
    matrix.offsets.push_back(matrix.values.size());
  }
  return matrix;
}

void ExpectNear(ConstMatrixView actual, ConstMatrixView expected) {
  for (std::size_t i = 0; i < expected.rows(); ++i) {
    for (std::size_t j = 0; j < expected.cols(); ++j) {
      ASSERT_NEAR(actual(i, j), expected(i, j), 1e-12 * std::max(1.0, std::abs(expected(i, j)))) << i << "," << j;
    }
  }
}

class SparseFeaturesTest : public ::testing::TestWithParam<double> {};

TEST_P(SparseFeaturesTest, InnerProductsEqualThoseOfTheSameDenseRows) {
  const SparseMatrix a = RandomSparse(120, 300, GetParam(), 1), b = RandomSparse(70, 300, GetParam(), 2);
  const SparseFeatures sparse(a), other(b);
  const DenseFeatures dense(ToDense(a)), dense_other(ToDense(b));
  RowList some = {5, 119, 0, 6, 6, 77}, all(70);
  std::iota(all.begin(), all.end(), RowIndex{0});
  Matrix<double> actual(some.size(), all.size()), expected(some.size(), all.size());
  MultiplyRows(sparse.Pack(some), 0, other.Pack(all), 0, actual.view());
  MultiplyRows(dense.Pack(some), 0, dense_other.Pack(all), 0, expected.view());
  ExpectNear(actual.view(), expected.view());
  for (std::size_t row = 0; row < 120; ++row) {
    EXPECT_NEAR(sparse.squared_norms()[row], dense.squared_norms()[row], 1e-12);
  }
}

TEST_P(SparseFeaturesTest, KernelBlocksEqualThoseOfTheSameDenseRows) {
  const SparseMatrix values = RandomSparse(300, 500, GetParam(), 3);
  const SparseFeatures sparse(values);
  const DenseFeatures dense(ToDense(values));
  RowList rows(300);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  for (const KernelType type : {KernelType::kRbf, KernelType::kLinear, KernelType::kCosine}) {
    KernelFunction kernel;
    kernel.type = type;
    kernel.sigma = 3;
    Matrix<double> actual(300, 300), expected(300, 300);
    ComputeKernelBlock(kernel, sparse, rows, sparse, rows, actual.view());
    ComputeKernelBlock(kernel, dense, rows, dense, rows, expected.view());
    ExpectNear(actual.view(), expected.view());
  }
}

// From rows without elements in common to rows without zeros.
INSTANTIATE_TEST_SUITE_P(Shares, SparseFeaturesTest, ::testing::Values(0.0, 0.001, 0.02, 0.3, 1.0));

}  // namespace
}  // namespace fulcrum::kernel
