// Features of a sparse pool, kept sparse as far as the kernel: kernel blocks are the first thing that is dense.
//
// Immutable and thread-safe after construction. Owns the matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "stages/core/matrix.h"
#include "stages/core/sparse_matrix.h"
#include "stages/kernel/features.h"

namespace fulcrum::kernel {

class SparseFeatures final : public Features {
 public:
  explicit SparseFeatures(SparseMatrix values);
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
