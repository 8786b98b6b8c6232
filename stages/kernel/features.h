// The pool's features as the kernels read them.
//
// Immutable and thread-safe after construction. Kernels need only inner products between rows and
// squared norms, so dense and sparse pools meet behind DotBlock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::kernel {

/// What is known of a row.
enum class FeatureKind {
  kDense,          ///< its numbers
  kSparse,         ///< its non-zero numbers
  kInnerProducts,  ///< inner products with other rows alone
};

class Features {
 public:
  virtual ~Features() = default;
  virtual FeatureKind kind() const { return FeatureKind::kInnerProducts; }
  std::size_t rows() const { return squared_norms_.size(); }
  virtual std::size_t dims() const = 0;
  /// |x_i|^2 of every row.
  std::span<const double> squared_norms() const { return squared_norms_; }
  /// out(i, j) = x_{a[i]} . z_{b[j]}, z a row of `other` (often *this), which is of the same kind and
  /// dimension. One thread; callers tile.
  virtual void DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                        MutableMatrixView out) const = 0;
  /// The named rows alone, side by side in memory and ready for many products, in their order. Null where nothing but
  /// inner products is known.
  virtual std::unique_ptr<Features> Gather(std::span<const RowIndex>) const { return nullptr; }
  /// Writes the named rows in float32. False, and nothing written, where a row of numbers is not what there is: sparse
  /// features, or inner products alone.
  virtual bool CopyRows(std::span<const RowIndex>, MatrixView<float>) const { return false; }
  /// Whether predictions should be made of float32 kernel values: a pool that is not in memory is too large for better.
  virtual bool prefers_float() const { return false; }
  /// What the rows take of memory.
  virtual std::size_t bytes() const { return sizeof(double) * rows() * dims(); }

 protected:
  std::vector<double> squared_norms_;
};

/// Features in a dense matrix, one example a row. Owns it.
class DenseFeatures final : public Features {
 public:
  explicit DenseFeatures(Matrix<double> values);
  FeatureKind kind() const override { return FeatureKind::kDense; }
  std::size_t dims() const override { return values_.cols(); }
  void DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                MutableMatrixView out) const override;
  std::unique_ptr<Features> Gather(std::span<const RowIndex> rows) const override;
  bool CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override;
  ConstMatrixView values() const { return values_.view(); }

 private:
  Matrix<double> values_;
};

// Features of a sparse pool, kept sparse as far as the kernel: kernel blocks are the first thing that is dense.
//
// Immutable and thread-safe after construction. Owns the matrix.

class SparseFeatures final : public Features {
 public:
  explicit SparseFeatures(SparseMatrix values);
  FeatureKind kind() const override { return FeatureKind::kSparse; }
  std::size_t dims() const override { return values_.cols; }
  /// `other` must be sparse too.
  void DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                MutableMatrixView out) const override;
  std::unique_ptr<Features> Gather(std::span<const RowIndex> rows) const override;
  std::size_t bytes() const override {
    return values_.values.size() * (sizeof(double) + sizeof(std::int32_t)) + rows() * sizeof(std::size_t);
  }
  const SparseMatrix& values() const { return values_; }

 private:
  SparseMatrix values_;
};

}  // namespace fulcrum::kernel
