// The kernel matrix of a whole pool, seen tile by tile: held in memory for small pools, recomputed each time for
// large ones, so that memory stays bounded where time does not. Immutable and thread-safe after construction.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::select {

class PoolKernel {
 public:
  /// Up to this many rows the matrix (512 MB then) is kept.
  static constexpr std::size_t kRowsInMemory = 8000;

  /// Keeps a reference to `features`. `rows_in_memory` is there for tests.
  PoolKernel(const kernel::KernelFunction& kernel, const kernel::Features& features,
             std::size_t rows_in_memory = kRowsInMemory);

  std::size_t size() const { return all_rows_.size(); }
  /// K(x, x) of every row.
  std::vector<double> Diagonal() const;
  /// out(i, j) = K(x_i, x_{rows[j]}).
  void Columns(std::span<const RowIndex> rows, MutableMatrixView out) const;

  using TileVisitor = absl::FunctionRef<void(std::size_t first_row, std::size_t first_col, ConstMatrixView tile)>;
  /// Shows every tile once: rows of tiles in parallel, the tiles of one row of tiles in order on one thread.
  void VisitTiles(TileVisitor visitor) const;
  /// y = K x.
  void Multiply(std::span<const double> x, std::span<double> y) const;

 private:
  kernel::KernelFunction kernel_;
  const kernel::Features& features_;
  RowList all_rows_;
  Matrix<double> matrix_;  // empty for a large pool
};

}  // namespace fulcrum::select
