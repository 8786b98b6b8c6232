// A symmetric positive semi-definite matrix known by its products.
//
// The eigensolvers ask for nothing else, so a kernel held in memory and one recomputed tile by tile
// look the same to them. Implementations are safe for concurrent Apply.
#pragma once

#include <cstddef>

#include "stages/core/matrix.h"

namespace fulcrum::linalg {

class SymmetricOperator {
 public:
  virtual ~SymmetricOperator() = default;
  virtual std::size_t size() const = 0;
  virtual double Trace() const = 0;
  /// y = x A for a block of vectors, one a row: x and y are width x size().
  virtual void Apply(ConstMatrixView x, MutableMatrixView y) const = 0;
  /// The matrix itself where it is in memory, for solvers that need all of it; an empty view otherwise.
  virtual ConstMatrixView Dense() const { return {}; }
};

/// A full (both triangles) matrix in memory. Does not own it.
class DenseSymmetricOperator final : public SymmetricOperator {
 public:
  explicit DenseSymmetricOperator(ConstMatrixView matrix);
  std::size_t size() const override { return matrix_.rows(); }
  double Trace() const override { return trace_; }
  void Apply(ConstMatrixView x, MutableMatrixView y) const override;
  ConstMatrixView Dense() const override { return matrix_; }

 private:
  ConstMatrixView matrix_;
  double trace_;
};

}  // namespace fulcrum::linalg
