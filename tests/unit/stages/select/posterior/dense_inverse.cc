#include "tests/unit/stages/select/posterior/dense_inverse.h"

#include <cmath>
#include <utility>

namespace fulcrum::select {

Matrix<double> DenseInverse(ConstMatrixView matrix) {
  const std::size_t size = matrix.rows();
  Matrix<double> left = Matrix<double>::CopyOf(matrix);
  Matrix<double> right = Matrix<double>::Zero(size, size);
  for (std::size_t i = 0; i < size; ++i) right(i, i) = 1;
  for (std::size_t column = 0; column < size; ++column) {
    std::size_t pivot = column;
    for (std::size_t i = column + 1; i < size; ++i) {
      if (std::abs(left(i, column)) > std::abs(left(pivot, column))) pivot = i;
    }
    const double scale = left(pivot, column);
    for (std::size_t j = 0; j < size; ++j) {
      std::swap(left(pivot, j), left(column, j));
      std::swap(right(pivot, j), right(column, j));
      left(column, j) /= scale;
      right(column, j) /= scale;
    }
    for (std::size_t i = 0; i < size; ++i) {
      if (i == column) continue;
      const double factor = left(i, column);
      for (std::size_t j = 0; j < size; ++j) {
        left(i, j) -= factor * left(column, j);
        right(i, j) -= factor * right(column, j);
      }
    }
  }
  return right;
}

}  // namespace fulcrum::select
