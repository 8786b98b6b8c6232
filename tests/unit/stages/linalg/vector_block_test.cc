#include "gtest/gtest.h"
#include "stages/linalg/blas.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

using testing::RandomMatrix;

void ExpectOrthonormal(ConstMatrixView block) {
  Matrix<double> gram(block.rows(), block.rows());
  InnerProducts(block, block, gram.view());
  for (std::size_t i = 0; i < gram.rows(); ++i) {
    for (std::size_t j = 0; j < gram.cols(); ++j) EXPECT_NEAR(gram(i, j), i == j ? 1 : 0, 1e-13);
  }
}

TEST(InnerProducts, EqualTheSumsOfProducts) {
  const auto a = RandomMatrix(3, 2500, 1), b = RandomMatrix(4, 2500, 2);
  Matrix<double> products(3, 4);
  InnerProducts(a.view(), b.view(), products.view());
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      double expected = 0;
      for (std::size_t l = 0; l < 2500; ++l) expected += a(i, l) * b(j, l);
      EXPECT_NEAR(products(i, j), expected, 1e-10);
    }
  }
}

TEST(OrthonormalizeAgainst, IsOrthogonalToTheBasis) {
  Matrix<double> basis = RandomMatrix(10, 3000, 1);
  ASSERT_EQ(OrthonormalizeAgainst({}, basis.view()), 10u);
  Matrix<double> block = RandomMatrix(4, 3000, 2);
  // Nearly inside the span of the basis: one pass would leave a rounding error that is not orthogonal.
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 3000; ++j) block(i, j) = basis(i, j) + 1e-9 * block(i, j);
  }
  ASSERT_EQ(OrthonormalizeAgainst(basis.view(), block.view()), 4u);
  ExpectOrthonormal(block.view());
  Matrix<double> coupling(10, 4);
  InnerProducts(basis.view(), block.view(), coupling.view());
  for (std::size_t i = 0; i < 10; ++i) {
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(coupling(i, j), 0, 1e-13);
  }
}

TEST(OrthonormalizeAgainst, DropsDependentVectors) {
  Matrix<double> block = RandomMatrix(3, 500, 3);
  for (std::size_t j = 0; j < 500; ++j) block(2, j) = 2 * block(0, j) - block(1, j);
  EXPECT_EQ(OrthonormalizeAgainst({}, block.view()), 2u);
  ExpectOrthonormal(block.view().Rows(0, 2));
}

TEST(OrthonormalizeTogether, RotatesTheCompanionAlike) {
  const Matrix<double> given = RandomMatrix(5, 400, 4);
  Matrix<double> tripled = given.Clone();
  for (std::size_t i = 0; i < 5; ++i) {
    for (double& value : tripled.row(i)) value *= 3;
  }
  Matrix<double> block(5, 400), companion(5, 400);
  ASSERT_EQ(OrthonormalizeTogether(given.view(), tripled.view(), block.view(), companion.view()), 5u);
  ExpectOrthonormal(block.view());
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 400; ++j) EXPECT_NEAR(companion(i, j), 3 * block(i, j), 1e-12);
  }
}

TEST(OrthonormalizeTogether, TakesASecondPassIfTheVectorsAreNearlyDependent) {
  Matrix<double> given = RandomMatrix(3, 400, 6);
  for (std::size_t j = 0; j < 400; ++j) given(2, j) = given(0, j) + 1e-4 * given(2, j);
  Matrix<double> block(3, 400), companion(3, 400);
  ASSERT_EQ(OrthonormalizeTogether(given.view(), given.view(), block.view(), companion.view()), 3u);
  ExpectOrthonormal(block.view());
  for (std::size_t j = 0; j < 400; ++j) EXPECT_NEAR(companion(2, j), block(2, j), 1e-9);
}

TEST(InnerProducts, AreTheSameBitForBitOnAnyNumberOfThreads) {
  const auto a = RandomMatrix(6, 5000, 5);
  Matrix<double> with_all(6, 6), with_one(6, 6);
  InnerProducts(a.view(), a.view(), with_all.view());
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  InnerProducts(a.view(), a.view(), with_one.view());
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) EXPECT_EQ(with_all(i, j), with_one(i, j));
  }
}

}  // namespace
}  // namespace fulcrum::linalg
