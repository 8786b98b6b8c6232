// Features of which only inner products are kept, computed once and looked up ever after.
//
// An experiment asks for the same kernel values again and again: every strategy, every round. What all kernels are made
// of, the inner products with the training half, fits into memory, and the stages read it as they would read features.
// Immutable and thread-safe after construction.
#pragma once

#include <memory>
#include <span>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

class DotTable final : public kernel::Features {
 public:
  /// dots(i, j) = x_i . x_j for the first `rows` rows i and all columns j; rows and columns count the same examples,
  /// those with a column first. Shares the table.
  DotTable(std::shared_ptr<const Matrix<double>> dots, std::span<const double> squared_norms, std::size_t dims);

  std::size_t dims() const override { return dims_; }
  /// `other` is a DotTable over the same examples; each of `b` has a column.
  void DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                MutableMatrixView out) const override;

 private:
  std::shared_ptr<const Matrix<double>> dots_;
  std::size_t dims_;
};

}  // namespace fulcrum::pipeline
