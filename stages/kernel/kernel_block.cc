#include "stages/kernel/kernel_block.h"

#include <algorithm>
#include <vector>

#include "stages/core/parallel.h"

namespace fulcrum::kernel {
namespace {

// Large enough for GEMM to run at full speed, small enough for a tile to stay in cache until exp has seen it.
constexpr std::size_t kTile = 256;

std::vector<double> NormsOf(const Features& features, std::span<const RowIndex> rows) {
  std::vector<double> norms(rows.size());
  std::transform(rows.begin(), rows.end(), norms.begin(), [&](RowIndex row) { return features.squared_norms()[row]; });
  return norms;
}

void ComputeTile(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                 const Features& other, std::span<const RowIndex> b, MutableMatrixView out) {
  features.DotBlock(a, other, b, out);
  ApplyKernelToDots(kernel, NormsOf(features, a), NormsOf(other, b), out);
}

void MirrorTile(ConstMatrixView tile, MutableMatrixView mirrored) {
  for (std::size_t i = 0; i < tile.rows(); ++i) {
    for (std::size_t j = 0; j < tile.cols(); ++j) mirrored(j, i) = tile(i, j);
  }
}

/// Makes a tile on the diagonal exactly symmetric, with the exact diagonal.
void SettleDiagonalTile(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                        MutableMatrixView tile) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    tile(i, i) = KernelDiagonal(kernel, features.squared_norms()[rows[i]]);
    for (std::size_t j = 0; j < i; ++j) tile(i, j) = tile(j, i);
  }
}

}  // namespace

void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        const Features& other, std::span<const RowIndex> b, MutableMatrixView out) {
  const std::size_t tile_columns = (b.size() + kTile - 1) / kTile;
  const std::size_t tile_rows = (a.size() + kTile - 1) / kTile;
  ParallelForBlocks(tile_rows * tile_columns, 1, [&](std::size_t tile, std::size_t) {
    const std::size_t row = tile / tile_columns * kTile;
    const std::size_t col = tile % tile_columns * kTile;
    const std::size_t row_count = std::min(kTile, a.size() - row);
    const std::size_t col_count = std::min(kTile, b.size() - col);
    ComputeTile(kernel, features, a.subspan(row, row_count), other, b.subspan(col, col_count),
                out.Block(row, col, row_count, col_count));
  });
}

void ComputeKernelBlock(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> a,
                        std::span<const RowIndex> b, MutableMatrixView out) {
  ComputeKernelBlock(kernel, features, a, features, b, out);
}

void ComputeKernelSymmetric(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> rows,
                            MutableMatrixView out) {
  const std::size_t tiles = (rows.size() + kTile - 1) / kTile;
  ParallelForBlocks(tiles * tiles, 1, [&](std::size_t tile, std::size_t) {
    const std::size_t row = tile / tiles * kTile;
    const std::size_t col = tile % tiles * kTile;
    if (col < row) return;
    const auto a = rows.subspan(row, std::min(kTile, rows.size() - row));
    const auto b = rows.subspan(col, std::min(kTile, rows.size() - col));
    const MutableMatrixView upper = out.Block(row, col, a.size(), b.size());
    ComputeTile(kernel, features, a, features, b, upper);
    if (row == col) {
      SettleDiagonalTile(kernel, features, a, upper);
    } else {
      MirrorTile(upper, out.Block(col, row, b.size(), a.size()));
    }
  });
}

}  // namespace fulcrum::kernel
