#include "stages/linalg/blas.h"

#include <cctype>

#include "gtest/gtest.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

using testing::RandomMatrix;

double Element(Transpose transpose, ConstMatrixView matrix, std::size_t i, std::size_t j) {
  return transpose == Transpose::kYes ? matrix(j, i) : matrix(i, j);
}

TEST(Gemm, EqualsTheSumOfProductsForEveryTransposition) {
  for (Transpose ta : {Transpose::kNo, Transpose::kYes}) {
    for (Transpose tb : {Transpose::kNo, Transpose::kYes}) {
      const auto a = ta == Transpose::kNo ? RandomMatrix(5, 7, 1) : RandomMatrix(7, 5, 1);
      const auto b = tb == Transpose::kNo ? RandomMatrix(7, 3, 2) : RandomMatrix(3, 7, 2);
      Matrix<double> c = RandomMatrix(5, 3, 3);
      const Matrix<double> before = c.Clone();
      Gemm(ta, tb, 2.0, a.view(), b.view(), 0.5, c.view());
      for (std::size_t i = 0; i < 5; ++i) {
        for (std::size_t j = 0; j < 3; ++j) {
          double expected = 0.5 * before(i, j);
          for (std::size_t l = 0; l < 7; ++l) expected += 2 * Element(ta, a.view(), i, l) * Element(tb, b.view(), l, j);
          EXPECT_NEAR(c(i, j), expected, 1e-12);
        }
      }
    }
  }
}

TEST(Gemm, WorksOnABlockOfALargerMatrix) {
  const auto a = RandomMatrix(6, 6, 4);
  Matrix<double> c = Matrix<double>::Zero(6, 6);
  const auto block = a.view().Block(1, 2, 2, 3);
  Gemm(Transpose::kNo, Transpose::kYes, 1.0, block, block, 0.0, c.view().Block(3, 3, 2, 2));
  EXPECT_NEAR(c(3, 4), Dot(block.row(0), block.row(1)), 1e-12);
  EXPECT_EQ(c(5, 5), 0) << "wrote outside its block";
}

TEST(LibraryVersion, NamesTheLoadedLibrary) {
  EXPECT_FALSE(LibraryName().empty());
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(LibraryVersion()[0]))) << LibraryVersion();
}

}  // namespace
}  // namespace fulcrum::linalg
