#include "stages/linalg/tall_skinny.h"

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tests/support/matrices.h"

namespace fulcrum::linalg {
namespace {

using testing::RandomMatrix;

void ExpectOrthonormal(ConstMatrixView block) {
  Matrix<double> gram(block.cols(), block.cols());
  TransposeMultiply(block, block, gram.view());
  for (std::size_t i = 0; i < gram.rows(); ++i) {
    for (std::size_t j = 0; j < gram.cols(); ++j) EXPECT_NEAR(gram(i, j), i == j ? 1 : 0, 1e-13);
  }
}

TEST(OrthonormalizeAgainst, IsOrthogonalToTheBasis) {
  Matrix<double> basis = RandomMatrix(3000, 10, 1);
  ASSERT_EQ(OrthonormalizeAgainst({}, basis.view()), 10u);
  Matrix<double> block = RandomMatrix(3000, 4, 2);
  // Nearly inside the span of the basis: one pass would leave a rounding error that is not orthogonal.
  for (std::size_t i = 0; i < 3000; ++i) {
    for (std::size_t j = 0; j < 4; ++j) block(i, j) = basis(i, j) + 1e-9 * block(i, j);
  }
  ASSERT_EQ(OrthonormalizeAgainst(basis.view(), block.view()), 4u);
  ExpectOrthonormal(block.view());
  Matrix<double> coupling(10, 4);
  TransposeMultiply(basis.view(), block.view(), coupling.view());
  for (std::size_t i = 0; i < 10; ++i) {
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(coupling(i, j), 0, 1e-13);
  }
}

TEST(OrthonormalizeAgainst, DropsDependentColumns) {
  Matrix<double> block = RandomMatrix(500, 3, 3);
  for (std::size_t i = 0; i < 500; ++i) block(i, 2) = 2 * block(i, 0) - block(i, 1);
  EXPECT_EQ(OrthonormalizeAgainst({}, block.view()), 2u);
  ExpectOrthonormal(block.view().Cols(0, 2));
}

TEST(OrthonormalizeTogether, RotatesTheCompanionAlike) {
  Matrix<double> block = RandomMatrix(400, 5, 4);
  Matrix<double> companion = block.Clone();
  for (std::size_t i = 0; i < 400; ++i) {
    for (double& value : companion.row(i)) value *= 3;
  }
  ASSERT_EQ(OrthonormalizeTogether(block.view(), companion.view()), 5u);
  ExpectOrthonormal(block.view());
  for (std::size_t i = 0; i < 400; ++i) {
    for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(companion(i, j), 3 * block(i, j), 1e-12);
  }
}

TEST(TransposeMultiply, IsTheSameBitForBitOnAnyNumberOfThreads) {
  const auto a = RandomMatrix(5000, 6, 5);
  Matrix<double> with_all(6, 6), with_one(6, 6);
  TransposeMultiply(a.view(), a.view(), with_all.view());
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  TransposeMultiply(a.view(), a.view(), with_one.view());
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) EXPECT_EQ(with_all(i, j), with_one(i, j));
  }
}

}  // namespace
}  // namespace fulcrum::linalg
