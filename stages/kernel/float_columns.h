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

/// A few rows of the pool, copied to be multiplied with many columns.
struct FloatBlock {
  std::span<const RowIndex> rows = {};
  Matrix<float> values = {};  ///< empty where rows cannot be copied (Features::CopyRows)
  std::vector<float> norms = {};
};

class FloatColumns {
 public:
  FloatColumns(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> columns);

  std::size_t size() const { return columns_.size(); }
  std::span<const RowIndex> rows() const { return columns_; }

  /// One thread; callers cut the pool into blocks. Keeps a reference to `rows`.
  FloatBlock CopyBlock(std::span<const RowIndex> rows) const;
  /// tile(i, j) = K(row i of the block, column first + j), for as many columns as the tile has. One thread.
  void WriteTile(const FloatBlock& block, std::size_t first, MatrixView<float> tile) const;
  /// The same the other way round: tile(j, i) = K(column first + j, row i of the block), a row of the tile a column.
  void WriteTransposedTile(const FloatBlock& block, std::size_t first, MatrixView<float> tile) const;
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
