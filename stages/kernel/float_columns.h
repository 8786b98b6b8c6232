// Columns of a kernel in float32, for engines that look at every row of a large pool and keep none of what they see.
//
// Some rows (landmarks, picks, support vectors) are copied once, side by side; blocks of any other rows then become
// tiles of kernel values by SGEMM and a vectorised exponential, twice as fast as in double precision and right to about
// 1e-6. Immutable and thread-safe after construction. Keeps a reference to the features.
#pragma once

#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::kernel {

class FloatColumns {
 public:
  FloatColumns(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> columns);

  std::size_t size() const { return columns_.size(); }
  std::span<const RowIndex> rows() const { return columns_; }

  /// tile(i, j) = K(x_{rows[i]}, column j). One thread; callers cut the pool into blocks.
  void WriteTile(std::span<const RowIndex> rows, MatrixView<float> tile) const;
  /// values[j] = K(x_row, column first + j), for as many columns as there are values.
  void WriteRow(RowIndex row, std::size_t first, std::span<float> values) const;

 private:
  KernelFunction kernel_;
  const Features& features_;
  RowList columns_;
  Matrix<float> copied_;  // the columns' features; empty where rows cannot be copied
  std::vector<float> norms_;
};

}  // namespace fulcrum::kernel
