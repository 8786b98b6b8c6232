#include "stages/kernel/float_columns.h"

#include <algorithm>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRowsPerTask = 1024;

std::vector<float> NormsOf(const Features& features, std::span<const RowIndex> rows) {
  std::vector<float> norms(rows.size());
  std::transform(rows.begin(), rows.end(), norms.begin(),
                 [&](RowIndex row) { return static_cast<float>(features.squared_norms()[row]); });
  return norms;
}

/// Where only inner products can be had, they are had in double precision.
void WriteDots(const Features& features, std::span<const RowIndex> rows, std::span<const RowIndex> columns,
               MatrixView<float> tile) {
  Matrix<double> dots(rows.size(), columns.size());
  features.DotBlock(rows, features, columns, dots.view());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::transform(dots.row(i).begin(), dots.row(i).end(), tile.row(i).begin(),
                   [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace

FloatColumns::FloatColumns(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> columns)
    : kernel_(kernel),
      features_(features),
      columns_(columns.begin(), columns.end()),
      norms_(NormsOf(features, columns)) {
  if (!features.CopyRows({}, {})) return;
  copied_ = Matrix<float>(columns.size(), features.dims());
  ParallelForBlocks(columns.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    features.CopyRows(columns.subspan(first, count), copied_.view().Rows(first, count));
  });
}

FloatBlock FloatColumns::CopyBlock(std::span<const RowIndex> rows) const {
  FloatBlock block{rows, {}, NormsOf(features_, rows)};
  if (copied_.empty()) return block;
  block.values = Matrix<float>(rows.size(), features_.dims());
  features_.CopyRows(rows, block.values.view());
  return block;
}

void FloatColumns::WriteTile(const FloatBlock& block, std::size_t first, MatrixView<float> tile) const {
  if (tile.empty()) return;
  if (copied_.empty()) {
    WriteDots(features_, block.rows, std::span(columns_).subspan(first, tile.cols()), tile);
  } else {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0F, block.values.view(),
                 copied_.view().Rows(first, tile.cols()), 0.0F, tile);
  }
  ApplyKernelToDots(kernel_, block.norms, std::span(norms_).subspan(first, tile.cols()), tile);
}

void FloatColumns::WriteTransposedTile(const FloatBlock& block, std::size_t first, MatrixView<float> tile) const {
  if (tile.empty()) return;
  const auto columns = std::span(columns_).subspan(first, tile.rows());
  if (copied_.empty()) {
    WriteDots(features_, columns, block.rows, tile);
  } else {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0F, copied_.view().Rows(first, tile.rows()),
                 block.values.view(), 0.0F, tile);
  }
  ApplyKernelToDots(kernel_, std::span(norms_).subspan(first, tile.rows()), block.norms, tile);
}

void FloatColumns::WriteRow(RowIndex row, std::size_t first, std::span<float> values) const {
  const FloatBlock block = CopyBlock(std::span(&row, 1));
  const MatrixView<float> tile(values.data(), 1, values.size());
  if (copied_.empty()) {
    WriteTile(block, first, tile);
    return;
  }
  // A matrix-vector product: one row is no work for GEMM.
  linalg::Gemv(linalg::Transpose::kNo, 1.0F, copied_.view().Rows(first, values.size()), block.values.row(0), 0.0F,
               values);
  ApplyKernelToDots(kernel_, block.norms, std::span(norms_).subspan(first, values.size()), tile);
}

}  // namespace fulcrum::kernel
