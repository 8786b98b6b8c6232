// The features of a pool in memory: a dense matrix or a sparse one, as the files had them.
//
// A plain value; movable, not copyable.
#pragma once

#include <cstddef>
#include <utility>
#include <variant>

#include "stages/core/matrix.h"
#include "stages/core/sparse_matrix.h"

namespace fulcrum::ingest {

class PoolFeatures {
 public:
  PoolFeatures() = default;
  explicit PoolFeatures(Matrix<double> dense) : values_(std::move(dense)) {}
  explicit PoolFeatures(SparseMatrix sparse) : values_(std::move(sparse)) {}

  bool is_sparse() const { return std::holds_alternative<SparseMatrix>(values_); }
  std::size_t rows() const { return is_sparse() ? sparse().rows() : dense().rows(); }
  std::size_t cols() const { return is_sparse() ? sparse().cols : dense().cols(); }

  /// The one that it is.
  Matrix<double>& dense() { return std::get<Matrix<double>>(values_); }
  const Matrix<double>& dense() const { return std::get<Matrix<double>>(values_); }
  SparseMatrix& sparse() { return std::get<SparseMatrix>(values_); }
  const SparseMatrix& sparse() const { return std::get<SparseMatrix>(values_); }

  /// Writes out the zeros, where there are some to write out.
  void MakeDense() {
    if (is_sparse()) values_ = ToDense(sparse());
  }

 private:
  std::variant<Matrix<double>, SparseMatrix> values_;
};

}  // namespace fulcrum::ingest
