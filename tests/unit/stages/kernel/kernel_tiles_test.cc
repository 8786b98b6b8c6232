#include "stages/kernel/kernel_tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>
#include <utility>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/matrices.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRows = 120;

/// Inner products alone, of the same rows.
class DotsOnly final : public InnerProductFeatures {
 public:
  explicit DotsOnly(const DenseFeatures& dense) : dense_(dense) {
    squared_norms_.assign(dense.squared_norms().begin(), dense.squared_norms().end());
  }
  std::size_t dims() const override { return dense_.dims(); }
  void WriteInnerProducts(std::span<const RowIndex> a, std::span<const RowIndex> b,
                          MutableMatrixView out) const override {
    MultiplyRows(dense_.Pack(a), 0, dense_.Pack(b), 0, out);
  }

 private:
  const DenseFeatures& dense_;
};

void ExpectTiles(const Features& features, const KernelFunction& kernel, const Matrix<double>& expected,
                 double tolerance) {
  RowList all(kRows);
  std::iota(all.begin(), all.end(), RowIndex{0});
  const RowList some = {3, 7, 8, 9, 40, 119};
  const KernelTiles<float> columns(kernel, features, some);
  const TileRows block = columns.Pack(all);
  Matrix<float> tile(kRows, some.size()), transposed(some.size(), kRows);
  columns.Write(block, tile.view());
  columns.ForEachTransposedTile(
      block, transposed.view(), [&] { return some.size(); }, [](std::size_t, MatrixView<const float>) {});
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

TEST(FloatTiles, EqualTheKernelInDoublePrecisionWhereverTheRowsLie) {
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

TEST(FloatTiles, OtherKernelsAreNotShifted) {
  const Matrix<double> points = testing::RandomMatrix(kRows, 5, 1);
  for (const KernelType type : {KernelType::kLinear, KernelType::kPoly, KernelType::kCosine}) {
    const KernelFunction kernel{.type = type, .degree = 2};
    const Matrix<double> expected = testing::NaiveKernel(kernel, points.view(), points.view());
    ExpectTiles(DenseFeatures(points.Clone()), kernel, expected, 1e-4);
  }
}

/// More rows and columns than a tile has, and not multiples of them.
constexpr std::size_t kManyRows = 2 * KernelTiles<double>::kColumns + 77;

template <typename T>
class KernelTilesTest : public ::testing::Test {
 protected:
  KernelTilesTest() : points_(testing::RandomMatrix(kManyRows, 6, 3)), features_(points_.Clone()), rows_(kManyRows) {
    // Neither ascending nor consecutive.
    for (std::size_t i = 0; i < kManyRows; ++i) rows_[i] = static_cast<RowIndex>(i * 7 % kManyRows);
    expected_ = testing::NaiveKernel(kRbf, points_.view(), points_.view());
  }
  double Expected(std::size_t i, std::size_t j) const { return expected_(rows_[i], rows_[j]); }

  static constexpr KernelFunction kRbf{.type = KernelType::kRbf, .sigma = 3};
  static constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1e-13;
  Matrix<double> points_, expected_;
  DenseFeatures features_;
  RowList rows_;
};

using Precisions = ::testing::Types<float, double>;
TYPED_TEST_SUITE(KernelTilesTest, Precisions);

TYPED_TEST(KernelTilesTest, ForEachTileVisitsEveryValueOnceAndInOrder) {
  using Tiles = KernelTiles<TypeParam>;
  const Tiles tiles(this->kRbf, this->features_, this->rows_);
  Matrix<int> visits = Matrix<int>::Zero(kManyRows, kManyRows);
  std::pair<std::size_t, std::size_t> last{0, 0};
  tiles.ForEachTile(tiles.Pack(this->rows_), [&](std::size_t row, std::size_t column, auto tile) {
    EXPECT_LE(last, std::pair(row, column));
    last = {row, column};
    EXPECT_TRUE(tile.rows() <= Tiles::kRows && tile.cols() <= Tiles::kColumns);
    for (std::size_t i = 0; i < tile.rows(); ++i) {
      for (std::size_t j = 0; j < tile.cols(); ++j) {
        ++visits(row + i, column + j);
        ASSERT_NEAR(tile(i, j), this->Expected(row + i, column + j), this->kTolerance);
      }
    }
  });
  for (std::size_t i = 0; i < kManyRows; ++i) EXPECT_THAT(visits.row(i), ::testing::Each(1));
}

TYPED_TEST(KernelTilesTest, PanelsCoverTheSymmetricMatrixWithAnExactDiagonal) {
  const KernelTiles<TypeParam> tiles(this->kRbf, this->features_, this->rows_);
  Matrix<int> visits = Matrix<int>::Zero(kManyRows, kManyRows);
  for (std::size_t a = 0; a < tiles.panels(); ++a) {
    for (std::size_t b = a; b < tiles.panels(); ++b) {
      tiles.ForEachTileOfPanels(a, b, [&](std::size_t row, std::size_t column, auto tile) {
        for (std::size_t i = 0; i < tile.rows(); ++i) {
          for (std::size_t j = 0; j < tile.cols(); ++j) {
            ++visits(row + i, column + j);
            if (a != b) ++visits(column + j, row + i);
            ASSERT_NEAR(tile(i, j), this->Expected(row + i, column + j), this->kTolerance);
            if (row + i == column + j) {
              ASSERT_EQ(tile(i, j), TypeParam{1});
            }
          }
        }
      });
    }
  }
  for (std::size_t i = 0; i < kManyRows; ++i) EXPECT_THAT(visits.row(i), ::testing::Each(1));
}

TYPED_TEST(KernelTilesTest, AnyNumberOfThreadsWritesTheSameBits) {
  const KernelTiles<TypeParam> tiles(this->kRbf, this->features_, this->rows_);
  Matrix<TypeParam> with_all(kManyRows, kManyRows), with_one(kManyRows, kManyRows);
  tiles.Write(std::span<const RowIndex>(this->rows_), with_all.view());
  tiles.Write(tiles.Pack(this->rows_), with_one.view());
  for (std::size_t i = 0; i < kManyRows; ++i) ASSERT_TRUE(std::ranges::equal(with_all.row(i), with_one.row(i)));
}

TEST(KernelTilesOfManyColumns, StreamedColumnsGiveTheSameBitsAsPackedOnes) {
  const DenseFeatures features(testing::RandomMatrix(kManyRows, 6, 3));
  RowList rows(kManyRows);
  std::iota(rows.rbegin(), rows.rend(), RowIndex{0});
  const KernelFunction rbf{.type = KernelType::kRbf, .sigma = 3};
  const KernelTiles<double> packed(rbf, features, rows), streamed(rbf, features, rows, ColumnMemory::kStreamed);
  Matrix<double> expected(200, kManyRows), actual(200, kManyRows);
  packed.Write(packed.Pack(std::span(rows).first(200)), expected.view());
  streamed.Write(streamed.Pack(std::span(rows).first(200)), actual.view());
  for (std::size_t i = 0; i < 200; ++i) ASSERT_TRUE(std::ranges::equal(actual.row(i), expected.row(i)));
}

TEST(PackedRowsOfOtherKinds, CannotBeMultiplied) {
  const DenseFeatures dense(testing::RandomMatrix(3, 4, 1));
  SparseMatrix values;
  values.cols = 4;
  values.offsets.resize(4, 0);
  const SparseFeatures sparse(values);
  const RowList rows = {0, 1, 2};
  Matrix<double> products(3, 3);
  EXPECT_THROW(MultiplyRows(dense.Pack(rows), 0, sparse.Pack(rows), 0, products.view()), std::bad_variant_access);
  EXPECT_THROW(DotsOnly(dense).Pack(rows).ToDense(), std::logic_error);
}

}  // namespace
}  // namespace fulcrum::kernel
