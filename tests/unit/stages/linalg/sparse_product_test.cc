#include <gtest/gtest.h>

#include <vector>

#include "stages/core/random.h"
#include "stages/linalg/blas.h"

namespace fulcrum::linalg {
namespace {

struct Example {
  std::vector<int> offsets = {0};
  std::vector<int> columns;
  std::vector<double> values;
  Matrix<double> dense;
  SparseRows view() const { return {dense.cols(), offsets, columns, values}; }
};

Example RandomExample(std::size_t rows, std::size_t cols, double share, std::uint64_t seed) {
  Random random(seed);
  Example example;
  example.dense = Matrix<double>::Zero(rows, cols);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t col = 0; col < cols; ++col) {
      if (random.Uniform() >= share) continue;
      example.columns.push_back(static_cast<int>(col));
      example.values.push_back(random.Normal());
      example.dense(row, col) = example.values.back();
    }
    example.offsets.push_back(static_cast<int>(example.columns.size()));
  }
  return example;
}

// The wide ones have more columns than elements, which takes another way.
TEST(SparseProductTest, BothWaysEqualTheDenseProduct) {
  for (const std::size_t cols : {std::size_t{1}, std::size_t{40}, std::size_t{5000}}) {
    for (const double share : {0.0, 0.002, 0.1, 1.0}) {
      if (cols == 5000 && share == 1.0) continue;
      const Example a = RandomExample(33, cols, share, cols), b = RandomExample(17, cols, share, cols + 1);
      Matrix<double> expected(33, 17), actual(33, 17), portable(33, 17);
      Gemm(Transpose::kNo, Transpose::kYes, 1.0, a.dense.view(), b.dense.view(), 0.0, expected.view());
      MultiplyByTransposed(a.view(), b.view(), actual.view());
      MultiplyByTransposedPortable(a.view(), b.view(), portable.view());
      for (std::size_t i = 0; i < 33; ++i) {
        for (std::size_t j = 0; j < 17; ++j) {
          ASSERT_NEAR(actual(i, j), expected(i, j), 1e-12) << cols << " " << share;
          ASSERT_NEAR(portable(i, j), expected(i, j), 1e-12) << cols << " " << share;
        }
      }
    }
  }
}

}  // namespace
}  // namespace fulcrum::linalg
