#include "stages/kernel/float_columns.h"

#include <cmath>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/support/matrices.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRows = 120;

/// Inner products alone, of the same rows.
class DotsOnly final : public Features {
 public:
  explicit DotsOnly(const DenseFeatures& dense) : dense_(dense) {
    squared_norms_.assign(dense.squared_norms().begin(), dense.squared_norms().end());
  }
  std::size_t dims() const override { return dense_.dims(); }
  void DotBlock(std::span<const RowIndex> a, const Features&, std::span<const RowIndex> b,
                MutableMatrixView out) const override {
    dense_.DotBlock(a, dense_, b, out);
  }

 private:
  const DenseFeatures& dense_;
};

void ExpectTiles(const Features& features, const KernelFunction& kernel, const Matrix<double>& expected,
                 double tolerance) {
  RowList all(kRows);
  std::iota(all.begin(), all.end(), RowIndex{0});
  const RowList some = {3, 7, 8, 9, 40, 119};
  const FloatColumns columns(kernel, features, some);
  const FloatBlock block = columns.CopyBlock(all);
  Matrix<float> tile(kRows, some.size()), transposed(some.size(), kRows);
  columns.WriteTile(block, 0, tile.view());
  columns.WriteTransposedTile(block, 0, transposed.view());
  for (std::size_t i = 0; i < kRows; ++i) {
    std::vector<float> row(some.size());
    columns.WriteRow(all[i], 0, row);
    for (std::size_t j = 0; j < some.size(); ++j) {
      ASSERT_NEAR(tile(i, j), expected(i, some[j]), tolerance) << i << ", " << j;
      ASSERT_NEAR(transposed(j, i), expected(i, some[j]), tolerance) << i << ", " << j;
      ASSERT_NEAR(row[j], expected(i, some[j]), tolerance) << i << ", " << j;
    }
  }
}

TEST(FloatColumns, EqualTheKernelInDoublePrecisionWhereverTheRowsLie) {
  for (const double offset : {0.0, 10.0, 100.0, 1000.0}) {
    Matrix<double> points = testing::RandomMatrix(kRows, 64, 1);
    for (std::size_t i = 0; i < kRows; ++i) {
      for (double& value : points.row(i)) value += offset;
    }
    const KernelFunction rbf{.type = KernelType::kRbf, .sigma = 8};
    const Matrix<double> expected = testing::NaiveKernel(rbf, points.view(), points.view());
    const DenseFeatures features(std::move(points));
    // What is left is the rounding of the features themselves to single precision.
    ExpectTiles(features, rbf, expected, 2e-6 + 2e-8 * offset);
    ExpectTiles(DotsOnly(features), rbf, expected, 1e-6);
  }
}

TEST(FloatColumns, OtherKernelsAreNotShifted) {
  const Matrix<double> points = testing::RandomMatrix(kRows, 5, 1);
  for (const KernelType type : {KernelType::kLinear, KernelType::kPoly, KernelType::kCosine}) {
    const KernelFunction kernel{.type = type, .degree = 2};
    const Matrix<double> expected = testing::NaiveKernel(kernel, points.view(), points.view());
    ExpectTiles(DenseFeatures(points.Clone()), kernel, expected, 1e-4);
  }
}

}  // namespace
}  // namespace fulcrum::kernel
