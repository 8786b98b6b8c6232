#include "gtest/gtest.h"
#include "stages/leverage/landmarks.h"
#include "tests/support/matrices.h"

namespace fulcrum::leverage {
namespace {

constexpr kernel::KernelFunction kExtensionRbf{.type = kernel::KernelType::kRbf, .sigma = 3};

TEST(ExtendToRows, SumsKernelFunctionsAtEveryRow) {
  // More columns than a panel has, more rows than a block has, neither a multiple of it.
  constexpr std::size_t kColumns = 700, kRows = 600, kFunctions = 3;
  const Matrix<double> points = testing::RandomMatrix(kColumns + kRows, 4, 1);
  const Matrix<double> weights = testing::RandomMatrix(kColumns, kFunctions, 2);
  const kernel::DenseFeatures features(points.Clone());
  RowList columns(kColumns), rows(kRows);
  for (std::size_t i = 0; i < kColumns; ++i) columns[i] = static_cast<RowIndex>(i);
  for (std::size_t i = 0; i < kRows; ++i) rows[i] = static_cast<RowIndex>(kColumns + i);
  Matrix<float> coefficients(kColumns, kFunctions);
  for (std::size_t i = 0; i < kColumns; ++i) {
    for (std::size_t j = 0; j < kFunctions; ++j) coefficients(i, j) = static_cast<float>(weights(i, j));
  }
  const kernel::KernelTiles<float> kernel_columns(kExtensionRbf, features, columns);
  const Matrix<float> values = ExtendToRows(kernel_columns, coefficients.view(), rows, BlocksInTurns());
  const Matrix<double> kernel =
      testing::NaiveKernel(kExtensionRbf, points.view().Rows(kColumns, kRows), points.view().Rows(0, kColumns));
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kFunctions; ++j) {
      double expected = 0;
      for (std::size_t s = 0; s < kColumns; ++s) expected += kernel(i, s) * weights(s, j);
      ASSERT_NEAR(static_cast<double>(values(i, j)), expected, 1e-3) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace fulcrum::leverage
