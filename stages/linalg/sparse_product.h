// Inner products between the rows of sparse matrices.
//
// On the calling thread; thread-safe on disjoint outputs. Shapes are checked by assertions only.
#pragma once

#include <cstddef>
#include <span>

#include "stages/core/matrix.h"

namespace fulcrum::linalg {

/// Rows of a sparse matrix (CSR), not owned. Row i has the elements offsets[i] to offsets[i + 1].
struct SparseRows {
  std::size_t cols = 0;
  std::span<const int> offsets;  ///< one more than there are rows
  std::span<const int> columns;  ///< ascending within a row
  std::span<const double> values;

  std::size_t rows() const { return offsets.size() - 1; }
};

/// out = a * b^T, by MKL's sparse BLAS if MKL is linked.
void MultiplyByTransposed(const SparseRows& a, const SparseRows& b, MutableMatrixView out);

/// The same without MKL: what the function above is on OpenBLAS, which has no sparse part.
void MultiplyByTransposedPortable(const SparseRows& a, const SparseRows& b, MutableMatrixView out);

}  // namespace fulcrum::linalg
