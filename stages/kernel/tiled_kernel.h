// The kernel matrix of a set of rows that is never stored: every product computes it again, tile by tile.
//
// A product with a block of vectors costs m^2 / 2 kernel values, since each tile off the diagonal is used for both of
// its halves, and memory for the rows alone. Wide blocks pay: what a tile costs is shared by all vectors of the block.
//
// The rows are cut into panels. In each turn every panel meets one other (the schedule of a round-robin tournament),
// so that all tiles of a turn write to different parts of the result: threads need no locks, and sums are taken in the
// order of the turns, whatever the number of threads. Immutable and thread-safe after construction.
#pragma once

#include <span>

#include "stages/core/block_stream.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::kernel {

class TiledKernel final : public linalg::SymmetricOperator {
 public:
  /// Keeps references to `features`, `rows` and `stream`, which schedules the tiles, and a copy of the rows' features.
  TiledKernel(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
              const BlockStream& stream = BlocksInTurns());

  std::size_t size() const override { return rows_.size(); }
  double Trace() const override { return trace_; }
  void Apply(ConstMatrixView x, MutableMatrixView y) const override;

  /// The pool's row behind each row of the matrix.
  std::span<const RowIndex> rows() const { return rows_; }
  /// out(i, j) = K(x_{some[i]}, x_{rows()[j]}) for any rows of the pool.
  void WriteRows(std::span<const RowIndex> some, MutableMatrixView out) const;

 private:
  /// y += x K for the tiles between two panels.
  void MultiplyPanels(std::size_t first, std::size_t second, ConstMatrixView x, MutableMatrixView y) const;
  /// Calls multiply(i) for every i below `count`, several at once.
  void Stream(std::size_t count, const BlockStream::BlockCall& multiply) const;

  std::span<const RowIndex> rows_;
  const BlockStream& stream_;
  KernelTiles<double> tiles_;
  double trace_ = 0;
};

}  // namespace fulcrum::kernel
