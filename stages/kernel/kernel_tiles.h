// The evaluation of a kernel, tile by tile: the kernel of any rows with a fixed set of columns.
//
// The columns (landmarks, picks, support vectors, the rows of a class) are packed once; blocks of other rows become
// tiles of kernel values by GEMM and a vectorised exponential. A consumer sees each tile while it is in the cache, and
// tiles are not kept. Tiles have a fixed shape, so that values do not depend on the number of threads.
//
// KernelTiles<float> is twice as fast as KernelTiles<double> and accurate to about 1e-6. Squared distances are computed
// as |x|^2 + |z|^2 - 2 x.z, which cancels if all rows are far from the origin. They do not change if all rows are
// shifted, so in float32 the mean of the columns is subtracted from every row first. Rows that are not dense have inner
// products in double precision; their tiles are computed in it and rounded.
//
// Immutable and thread-safe after construction. Keeps a reference to the features.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::kernel {

/// Rows in memory as tiles read them.
struct TileRows {
  std::size_t size = 0;
  /// float32 copies of dense rows, shifted as the columns are; empty in double precision and for other kinds.
  Matrix<float> floats = {};
  std::vector<float> float_norms = {};  ///< squared, of `floats`
  PackedRows packed = {};               ///< empty if `floats` are used
  std::vector<double> norms = {};       ///< squared, of `packed`
};

/// Whether the columns are packed once, or again for each tile, if there may be too many of them to have in memory.
enum class ColumnMemory { kPacked, kStreamed };

template <typename T>
class KernelTiles {
 public:
  /// A tile has at most so many columns and rows: half a megabyte, which stays in the cache until it was consumed.
  static constexpr std::size_t kColumns = 512;
  static constexpr std::size_t kRows = (std::size_t{512} << 10) / (kColumns * sizeof(T));

  /// Copies `columns`. Streamed columns are for double precision: their mean is not known.
  KernelTiles(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> columns,
              ColumnMemory memory = ColumnMemory::kPacked);

  std::size_t size() const { return columns_.size(); }
  /// The row of the pool behind each column.
  std::span<const RowIndex> columns() const { return columns_; }

  /// Packs rows of the features, or of another set with the same kind and dimension (a test set).
  TileRows Pack(std::span<const RowIndex> rows) const { return Pack(features_, rows); }
  TileRows Pack(const Features& features, std::span<const RowIndex> rows) const;

  /// Calls consume(row, column, tile) with tile(i, j) = K(row + i of the block, column + j) for all tiles of a block:
  /// rows in order, and for each the columns in order. One thread.
  template <typename Consumer>
  void ForEachTile(const TileRows& block, const Consumer& consume) const;

  /// Calls consume(column, tile) with the transposed tile(j, i) = K(column + j, row i of the block), at most kRows
  /// columns of the kernel at a time. Tiles are written to `memory`, which has as many columns as the block has rows.
  /// wanted() is asked before each tile how many of the columns to visit in all. One thread.
  template <typename Wanted, typename Consumer>
  void ForEachTransposedTile(const TileRows& block, MatrixView<T> memory, const Wanted& wanted,
                             const Consumer& consume) const;

  /// The matrix of the columns with themselves is symmetric. Its columns are cut into panels of kColumns.
  std::size_t panels() const { return (size() + kColumns - 1) / kColumns; }
  /// Calls consume(row, column, tile) for the tiles whose rows are in one panel and whose columns are in another or the
  /// same; the diagonal is exact. Columns must be packed. One thread.
  template <typename Consumer>
  void ForEachTileOfPanels(std::size_t row_panel, std::size_t column_panel, const Consumer& consume) const;

  /// out(i, j) = K(row i of the block, column j) for all columns. One thread.
  void Write(const TileRows& block, MatrixView<T> out) const;
  /// The same for any number of rows, in parallel.
  void Write(std::span<const RowIndex> rows, MatrixView<T> out) const;
  /// values[j] = K(x_row, column first + j), for as many columns as there are values.
  void WriteRow(RowIndex row, std::size_t first, std::span<T> values) const;

 private:
  /// The loop over the tiles of a block: place(row, column, rows, columns) is where a tile is written.
  template <typename Place, typename Consumer>
  void Loop(const TileRows& block, const Place& place, const Consumer& consume) const;
  /// tile(i, j) = K(row i of `a` after a_first, row j of `b` after b_first).
  void Evaluate(const TileRows& a, std::size_t a_first, const TileRows& b, std::size_t b_first,
                MatrixView<T> tile) const;
  /// tile(i, j) = K(row i of the block after `row`, column + j).
  void EvaluateColumns(const TileRows& block, std::size_t row, std::size_t column, MatrixView<T> tile) const;
  void SetDiagonal(std::size_t row, std::size_t column, MatrixView<T> tile) const;
  /// Subtracts the centre from copied rows and returns their squared norms.
  std::vector<float> Centre(MatrixView<float> values) const;
  bool in_float(const Features& features) const;

  KernelFunction kernel_;
  const Features& features_;
  RowList columns_;
  ColumnMemory memory_;
  std::vector<float> centre_;  // subtracted from every float32 row; empty: nothing
  TileRows packed_;            // the columns; empty if they are streamed
};

/// Calls body(row, rows, column, columns) for every tile of a matrix of this shape, in parallel.
template <typename T, typename Body>
void ParallelForTiles(std::size_t rows, std::size_t columns, const Body& body) {
  using Tiles = KernelTiles<T>;
  const std::size_t panels = (columns + Tiles::kColumns - 1) / Tiles::kColumns;
  const std::size_t blocks = (rows + Tiles::kRows - 1) / Tiles::kRows;
  ParallelForBlocks(blocks * panels, 1, [&](std::size_t tile, std::size_t) {
    const std::size_t row = tile / panels * Tiles::kRows, column = tile % panels * Tiles::kColumns;
    body(row, std::min(Tiles::kRows, rows - row), column, std::min(Tiles::kColumns, columns - column));
  });
}

/// out(i, j) = K(x_{a[i]}, x_{b[j]}).
void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        std::span<const RowIndex> b, MutableMatrixView out);

/// out(i, j) = K(x_{a[i]}, z_{b[j]}) with z from another set of rows, such as a test set.
void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        const Features& other, std::span<const RowIndex> b, MutableMatrixView out);

/// out(i, j) = K(x_{rows[i]}, x_{rows[j]}), both triangles filled, half of them computed.
void ComputeKernelSymmetric(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                            MutableMatrixView out);

template <typename T>
template <typename Place, typename Consumer>
void KernelTiles<T>::Loop(const TileRows& block, const Place& place, const Consumer& consume) const {
  for (std::size_t row = 0; row < block.size; row += kRows) {
    ThrowIfStopRequested();
    const std::size_t rows = std::min(kRows, block.size - row);
    for (std::size_t column = 0; column < size(); column += kColumns) {
      const MatrixView<T> tile = place(row, column, rows, std::min(kColumns, size() - column));
      EvaluateColumns(block, row, column, tile);
      consume(row, column, MatrixView<const T>(tile));
    }
  }
}

template <typename T>
template <typename Consumer>
void KernelTiles<T>::ForEachTile(const TileRows& block, const Consumer& consume) const {
  Matrix<T> memory(std::min(kRows, block.size), std::min(kColumns, size()));
  const auto place = [&](std::size_t, std::size_t, std::size_t rows, std::size_t columns) {
    return memory.view().Block(0, 0, rows, columns);
  };
  Loop(block, place, consume);
}

template <typename T>
template <typename Wanted, typename Consumer>
void KernelTiles<T>::ForEachTransposedTile(const TileRows& block, MatrixView<T> memory, const Wanted& wanted,
                                           const Consumer& consume) const {
  std::size_t column = 0;
  for (std::size_t end = wanted(); column < end; end = wanted()) {
    const MatrixView<T> tile = memory.Rows(0, std::min(kRows, end - column));
    Evaluate(packed_, column, block, 0, tile);
    consume(column, MatrixView<const T>(tile));
    column += tile.rows();
  }
}

template <typename T>
template <typename Consumer>
void KernelTiles<T>::ForEachTileOfPanels(std::size_t row_panel, std::size_t column_panel,
                                         const Consumer& consume) const {
  const std::size_t column = column_panel * kColumns, columns = std::min(kColumns, size() - column);
  const std::size_t end = std::min((row_panel + 1) * kColumns, size());
  Matrix<T> memory(kRows, columns);
  for (std::size_t row = row_panel * kColumns; row < end; row += kRows) {
    const MatrixView<T> tile = memory.view().Rows(0, std::min(kRows, end - row));
    Evaluate(packed_, row, packed_, column, tile);
    if (row_panel == column_panel) SetDiagonal(row, column, tile);
    consume(row, column, MatrixView<const T>(tile));
  }
}

extern template class KernelTiles<float>;
extern template class KernelTiles<double>;

// The kernel matrix of a set of rows that is never stored: every product computes it again, tile by tile.
//
// A product with a block of vectors costs m^2 / 2 kernel values, since each tile off the diagonal is used for both of
// its halves, and memory for the rows alone. Wide blocks pay: what a tile costs is shared by all vectors of the block.
//
// The rows are cut into panels. In each turn every panel meets one other (the schedule of a round-robin tournament),
// so that all tiles of a turn write to different parts of the result: threads need no locks, and sums are taken in the
// order of the turns, whatever the number of threads. Immutable and thread-safe after construction.

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
