#include "stages/select/pool_kernel.h"

#include <algorithm>
#include <numeric>

#include "stages/core/parallel.h"
#include "stages/kernel/kernel_block.h"
#include "stages/linalg/blas.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kTileRows = 256;
constexpr std::size_t kTileCols = 1024;

}  // namespace

PoolKernel::PoolKernel(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       std::size_t rows_in_memory)
    : kernel_(kernel), features_(features), all_rows_(features.rows()) {
  std::iota(all_rows_.begin(), all_rows_.end(), RowIndex{0});
  if (size() > rows_in_memory) return;
  matrix_ = Matrix<double>(size(), size());
  kernel::ComputeKernelSymmetric(kernel_, features_, all_rows_, matrix_.view());
}

std::vector<double> PoolKernel::Diagonal() const {
  std::vector<double> diagonal;
  diagonal.reserve(size());
  for (const double norm : features_.squared_norms()) diagonal.push_back(kernel::KernelDiagonal(kernel_, norm));
  return diagonal;
}

void PoolKernel::Columns(std::span<const RowIndex> rows, MutableMatrixView out) const {
  if (rows.empty()) return;
  kernel::ComputeKernelBlock(kernel_, features_, all_rows_, rows, out);
}

void PoolKernel::VisitTiles(TileVisitor visitor) const {
  ParallelForBlocks(size(), kTileRows, [&](std::size_t first_row, std::size_t row_count) {
    if (!matrix_.empty()) {
      visitor(first_row, 0, matrix_.view().Rows(first_row, row_count));
      return;
    }
    Matrix<double> buffer(row_count, std::min(kTileCols, size()));
    const std::span<const RowIndex> rows = std::span(all_rows_).subspan(first_row, row_count);
    for (std::size_t first_col = 0; first_col < size(); first_col += kTileCols) {
      const std::size_t col_count = std::min(kTileCols, size() - first_col);
      const MutableMatrixView tile = buffer.view().Cols(0, col_count);
      kernel::ComputeKernelBlock(kernel_, features_, rows, std::span(all_rows_).subspan(first_col, col_count), tile);
      visitor(first_row, first_col, tile);
    }
  });
}

void PoolKernel::Multiply(std::span<const double> x, std::span<double> y) const {
  std::fill(y.begin(), y.end(), 0.0);
  VisitTiles([&](std::size_t first_row, std::size_t first_col, ConstMatrixView tile) {
    linalg::Gemv(linalg::Transpose::kNo, 1.0, tile, x.subspan(first_col, tile.cols()), 1.0,
                 y.subspan(first_row, tile.rows()));
  });
}

}  // namespace fulcrum::select
