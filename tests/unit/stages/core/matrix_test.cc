#include "stages/core/matrix.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace fulcrum {
namespace {

TEST(Matrix, EveryRowStartsOnACacheLine) {
  for (std::size_t cols : {1, 7, 8, 511, 512, 1024}) {
    const Matrix<double> matrix(3, cols);
    for (std::size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.row(row).data()) % 64, 0u) << cols << " columns";
    }
  }
}

TEST(Matrix, RowsDoNotLieAWholePageApart) {
  // 512 doubles are a page; rows at such a distance would fight for the same cache sets.
  EXPECT_NE(Matrix<double>(2, 512).stride() * sizeof(double) % 4096, 0u);
}

TEST(Matrix, BlockShowsTheRectangle) {
  Matrix<double> matrix(4, 5);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 5; ++j) matrix(i, j) = static_cast<double>(10 * i + j);
  }
  const auto block = matrix.view().Block(1, 2, 2, 3);
  EXPECT_EQ(block.rows(), 2u);
  EXPECT_EQ(block(0, 0), 12);
  EXPECT_EQ(block(1, 2), 24);
  block(1, 2) = -1;
  EXPECT_EQ(matrix(2, 4), -1);
}

TEST(Matrix, CloneIsApartFromItsSource) {
  Matrix<double> matrix = Matrix<double>::Zero(2, 2);
  Matrix<double> clone = matrix.Clone();
  clone(0, 0) = 5;
  EXPECT_EQ(matrix(0, 0), 0);
  EXPECT_EQ(clone(0, 0), 5);
}

TEST(Matrix, OfNoRowsIsEmpty) {
  EXPECT_TRUE(Matrix<double>(0, 5).empty());
  EXPECT_TRUE(Matrix<double>().empty());
}

}  // namespace
}  // namespace fulcrum
