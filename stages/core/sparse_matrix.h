// Sparse matrices by rows (CSR): what text becomes when words are counted.
//
// A plain value. As thread-safe as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stages/core/matrix.h"

namespace fulcrum {

struct SparseMatrix {
  std::size_t cols = 0;
  std::vector<std::size_t> offsets = {0};  ///< by row, where it begins; one more than rows
  std::vector<std::int32_t> columns;       ///< ascending within a row
  std::vector<double> values;              ///< beside `columns`

  std::size_t rows() const { return offsets.size() - 1; }
  std::size_t nonzeros() const { return values.size(); }
  std::span<const std::int32_t> ColumnsOf(std::size_t row) const {
    return {columns.data() + offsets[row], offsets[row + 1] - offsets[row]};
  }
  std::span<const double> ValuesOf(std::size_t row) const {
    return {values.data() + offsets[row], offsets[row + 1] - offsets[row]};
  }
  std::span<double> ValuesOf(std::size_t row) {
    return {values.data() + offsets[row], offsets[row + 1] - offsets[row]};
  }
};

/// The same numbers with all the zeros.
inline Matrix<double> ToDense(const SparseMatrix& sparse) {
  Matrix<double> dense = Matrix<double>::Zero(sparse.rows(), sparse.cols);
  for (std::size_t row = 0; row < sparse.rows(); ++row) {
    const auto columns = sparse.ColumnsOf(row);
    const auto values = sparse.ValuesOf(row);
    for (std::size_t i = 0; i < columns.size(); ++i) dense(row, static_cast<std::size_t>(columns[i])) = values[i];
  }
  return dense;
}

}  // namespace fulcrum
