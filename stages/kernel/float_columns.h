// Columns of a kernel in float32, for engines that look at every row of a large pool and keep none of what they see.
//
// Some rows (landmarks, picks, support vectors) are copied once, next to each other; blocks of any other rows then
// become tiles of kernel values by SGEMM and a vectorised exponential, twice as fast as in double precision and right
// to about 1e-6. Squared distances are computed as |x|^2 + |z|^2 - 2 x.z, which cancels if all rows lie far from the
// origin; rbf does not change if all rows are shifted, so the mean of the columns is subtracted from every copy.
// Immutable and thread-safe after construction. Keeps a reference to the features.
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
  Matrix<float> values = {};      ///< empty unless features are dense
  std::vector<float> norms = {};  ///< squared, of `values`
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
  /// Subtracts the centre from copied rows and returns their squared norms.
  std::vector<float> Centre(MatrixView<float> values) const;
  /// Features that are not dense have inner products in double precision, and so their kernel is computed in it.
  void WriteInDouble(std::span<const RowIndex> rows, std::span<const RowIndex> columns, MatrixView<float> tile) const;

  KernelFunction kernel_;
  const Features& features_;
  RowList columns_;
  std::vector<float> centre_;  // what is subtracted from every row; empty: nothing
  Matrix<float> copied_;       // the columns' features; empty unless features are dense
  std::vector<float> norms_;   // squared, of copied_
};

}  // namespace fulcrum::kernel
