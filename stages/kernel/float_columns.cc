#include "stages/kernel/float_columns.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRowsPerTask = 1024;

std::vector<double> NormsOf(const Features& features, std::span<const RowIndex> rows) {
  std::vector<double> norms(rows.size());
  std::transform(rows.begin(), rows.end(), norms.begin(), [&](RowIndex row) { return features.squared_norms()[row]; });
  return norms;
}

std::vector<float> MeanOf(MatrixView<const float> values) {
  std::vector<double> sums(values.cols(), 0.0);
  for (std::size_t i = 0; i < values.rows(); ++i) {
    const auto row = values.row(i);
    for (std::size_t j = 0; j < row.size(); ++j) sums[j] += static_cast<double>(row[j]);
  }
  std::vector<float> mean(values.cols());
  std::transform(sums.begin(), sums.end(), mean.begin(),
                 [&](double sum) { return static_cast<float>(sum / static_cast<double>(values.rows())); });
  return mean;
}

/// In double precision, in sums that the compiler can keep in one vector register.
double SquaredNorm(std::span<const float> values) {
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= values.size(); i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) {
      sums[j] += static_cast<double>(values[i + j]) * static_cast<double>(values[i + j]);
    }
  }
  double total = 0;
  for (; i < values.size(); ++i) total += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::accumulate(sums, sums + kSums, total);
}

}  // namespace

FloatColumns::FloatColumns(const KernelFunction& kernel, const Features& features, std::span<const RowIndex> columns)
    : kernel_(kernel), features_(features), columns_(columns.begin(), columns.end()) {
  if (features.kind() != FeatureKind::kDense || columns.empty()) return;
  copied_ = Matrix<float>(columns.size(), features.dims());
  ParallelForBlocks(columns.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    features.CopyRows(columns.subspan(first, count), copied_.view().Rows(first, count));
  });
  if (kernel.type == KernelType::kRbf) centre_ = MeanOf(std::as_const(copied_).view());
  norms_ = Centre(copied_.view());
}

std::vector<float> FloatColumns::Centre(MatrixView<float> values) const {
  std::vector<float> norms(values.rows());
  for (std::size_t i = 0; i < values.rows(); ++i) {
    const auto row = values.row(i);
    for (std::size_t j = 0; j < centre_.size(); ++j) row[j] -= centre_[j];
    norms[i] = static_cast<float>(SquaredNorm(row));
  }
  return norms;
}

void FloatColumns::WriteInDouble(std::span<const RowIndex> rows, std::span<const RowIndex> columns,
                                 MatrixView<float> tile) const {
  Matrix<double> values(rows.size(), columns.size());
  features_.DotBlock(rows, features_, columns, values.view());
  ApplyKernelToDots(kernel_, NormsOf(features_, rows), NormsOf(features_, columns), values.view());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::transform(values.row(i).begin(), values.row(i).end(), tile.row(i).begin(),
                   [](double value) { return static_cast<float>(value); });
  }
}

FloatBlock FloatColumns::CopyBlock(std::span<const RowIndex> rows) const {
  FloatBlock block{rows, {}, {}};
  if (copied_.empty()) return block;
  block.values = Matrix<float>(rows.size(), features_.dims());
  features_.CopyRows(rows, block.values.view());
  block.norms = Centre(block.values.view());
  return block;
}

void FloatColumns::WriteTile(const FloatBlock& block, std::size_t first, MatrixView<float> tile) const {
  if (tile.empty()) return;
  if (copied_.empty()) {
    WriteInDouble(block.rows, std::span(columns_).subspan(first, tile.cols()), tile);
    return;
  }
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0F, block.values.view(),
               copied_.view().Rows(first, tile.cols()), 0.0F, tile);
  ApplyKernelToDots(kernel_, block.norms, std::span(norms_).subspan(first, tile.cols()), tile);
}

void FloatColumns::WriteTransposedTile(const FloatBlock& block, std::size_t first, MatrixView<float> tile) const {
  if (tile.empty()) return;
  const auto columns = std::span(columns_).subspan(first, tile.rows());
  if (copied_.empty()) {
    WriteInDouble(columns, block.rows, tile);
    return;
  }
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0F, copied_.view().Rows(first, tile.rows()),
               block.values.view(), 0.0F, tile);
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
