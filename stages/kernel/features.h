// The pool's features as the kernels read them.
//
// Immutable and thread-safe after construction. Kernels need only inner products between rows and
// squared norms, so dense and sparse pools meet behind DotBlock.
#pragma once

#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::kernel {

class Features {
 public:
  virtual ~Features() = default;
  std::size_t rows() const { return squared_norms_.size(); }
  virtual std::size_t dims() const = 0;
  /// |x_i|^2 of every row.
  std::span<const double> squared_norms() const { return squared_norms_; }
  /// out(i, j) = x_{a[i]} . z_{b[j]}, z a row of `other` (often *this), which is of the same kind and
  /// dimension. One thread; callers tile.
  virtual void DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                        MutableMatrixView out) const = 0;

 protected:
  std::vector<double> squared_norms_;
};

/// Features in a dense matrix, one example a row. Owns it.
class DenseFeatures final : public Features {
 public:
  explicit DenseFeatures(Matrix<double> values);
  std::size_t dims() const override { return values_.cols(); }
  void DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                MutableMatrixView out) const override;
  ConstMatrixView values() const { return values_.view(); }

 private:
  Matrix<double> values_;
};

}  // namespace fulcrum::kernel
