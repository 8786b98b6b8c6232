#include <numeric>

#include "gtest/gtest.h"
#include "stages/core/random.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"

namespace fulcrum::kernel {
namespace {

/// Every other row of the pool, not in order.
RowList SomeRows(std::size_t count) {
  RowList rows(count);
  for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<RowIndex>(2 * i);
  Random(9).Shuffle(std::span(rows));
  return rows;
}

Matrix<double> Gathered(ConstMatrixView points, std::span<const RowIndex> rows) {
  Matrix<double> gathered(rows.size(), points.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(points.row(rows[i]).data(), points.cols(), gathered.row(i).data());
  }
  return gathered;
}

void ExpectProduct(const TiledKernel& tiled, ConstMatrixView expected_matrix) {
  const Matrix<double> x = testing::RandomMatrix(5, tiled.size(), 3);
  Matrix<double> product(5, tiled.size()), expected(5, tiled.size());
  tiled.Apply(x.view(), product.view());
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kNo, 1.0, x.view(), expected_matrix, 0.0, expected.view());
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < tiled.size(); ++j) ASSERT_NEAR(product(i, j), expected(i, j), 1e-10);
  }
}

TEST(TiledKernel, MultipliesLikeTheMatrixWhateverTheNumberOfPanels) {
  const Matrix<double> points = testing::RandomMatrix(4200, 7, 1);
  const DenseFeatures features(points.Clone());
  for (const KernelFunction& kernel : {KernelFunction{.type = KernelType::kRbf, .sigma = 3},
                                       KernelFunction{.type = KernelType::kPoly, .degree = 2, .normalize = true}}) {
    for (std::size_t size : {1, 300, 513, 1100, 1600, 2100}) {
      const RowList rows = SomeRows(size);
      const Matrix<double> own = Gathered(points.view(), rows);
      const Matrix<double> matrix = testing::NaiveKernel(kernel, own.view(), own.view());
      const TiledKernel tiled(kernel, features, rows);
      double trace = 0;
      for (std::size_t i = 0; i < size; ++i) trace += matrix(i, i);
      EXPECT_NEAR(tiled.Trace(), trace, 1e-9 * trace);
      ExpectProduct(tiled, matrix.view());
    }
  }
}

TEST(TiledKernel, ReadsSparseFeatures) {
  SparseMatrix sparse;
  sparse.cols = 40;
  Random random(4);
  for (std::size_t row = 0; row < 1400; ++row) {
    for (std::int32_t column = static_cast<std::int32_t>(random.Below(8)); column < 40; column += 8) {
      sparse.columns.push_back(column);
      sparse.values.push_back(random.Normal());
    }
    sparse.offsets.push_back(sparse.values.size());
  }
  const Matrix<double> dense = ToDense(sparse);
  const SparseFeatures features(std::move(sparse));
  const RowList rows = SomeRows(700);
  const KernelFunction kernel{.type = KernelType::kRbf, .sigma = 4};
  const Matrix<double> own = Gathered(dense.view(), rows);
  const TiledKernel tiled(kernel, features, rows);
  ExpectProduct(tiled, testing::NaiveKernel(kernel, own.view(), own.view()).view());
}

TEST(TiledKernel, GivesTheSameNumbersOnOneThread) {
  const DenseFeatures features(testing::RandomMatrix(3000, 6, 5));
  const RowList rows = SomeRows(1500);
  const TiledKernel tiled({.type = KernelType::kRbf, .sigma = 2}, features, rows);
  const Matrix<double> x = testing::RandomMatrix(3, 1500, 6);
  Matrix<double> many(3, 1500), one(3, 1500);
  tiled.Apply(x.view(), many.view());
  const tbb::global_control control(tbb::global_control::max_allowed_parallelism, 1);
  tiled.Apply(x.view(), one.view());
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 1500; ++j) ASSERT_EQ(many(i, j), one(i, j));
  }
}

}  // namespace
}  // namespace fulcrum::kernel
