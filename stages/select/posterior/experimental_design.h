// The state of transductive experimental design: a kernel matrix K deflated by the examples taken so far,
//   K' = K - K(:,i) K(i,:) / (K(i,i) + mu) for one after the other = K - V V',
// known by its column norms, its diagonal and V alone, never formed. The order of deflation does not matter.
// Not thread-safe; the pool's kernel must outlive it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"

namespace fulcrum::select {

// The kernel matrix of a whole pool, visited tile by tile: kept in memory for small pools, recomputed in each pass for
// large ones, so that memory stays bounded. Immutable and thread-safe after construction.

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
  Matrix<double> matrix_;                             // empty for a large pool
  std::optional<kernel::KernelTiles<double>> tiles_;  // of a large pool
};

class ExperimentalDesign {
 public:
  /// Deflated by `taken` already. One pass over the pool's kernel. `further` is how often Take will be called.
  static absl::StatusOr<ExperimentalDesign> Start(const PoolKernel& kernel, double mu, std::span<const RowIndex> taken,
                                                  std::size_t further);

  /// |K'(:,i)|^2 / (K'(i,i) + mu): how much example i would explain of the whole pool.
  double Score(RowIndex row) const { return column_norms_[row] / (diagonal_[row] + mu_); }

  /// Deflates by this example. One pass over the pool's kernel.
  void Take(RowIndex row);

 private:
  ExperimentalDesign(const PoolKernel& kernel, double mu, std::size_t capacity);
  absl::Status Deflate(std::span<const RowIndex> taken);
  void ComputeColumnNorms();
  ConstMatrixView vectors() const { return vectors_.view().Cols(0, taken_); }

  const PoolKernel* kernel_;
  double mu_;
  std::vector<double> column_norms_;  // |K'(:,i)|^2
  std::vector<double> diagonal_;      // K'(i,i)
  Matrix<double> vectors_;            // V, one column per example taken
  std::size_t taken_ = 0;
};

}  // namespace fulcrum::select
