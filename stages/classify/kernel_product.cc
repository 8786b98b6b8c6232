#include "stages/classify/kernel_product.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <numeric>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/kernel/float_columns.h"
#include "stages/linalg/blas.h"

namespace fulcrum::classify {
namespace {

// A tile of 512 x 1024 doubles is four megabytes: large enough for GEMM to run at its rate, small enough for the cache.
constexpr std::size_t kTileRows = 512;
constexpr std::size_t kPanel = 1024;
constexpr std::size_t kGatherBlock = 256;
// Half a megabyte of floats, which stays in a core's own cache until it is summed.
constexpr std::size_t kFloatTileRows = 256;
constexpr std::size_t kFloatPanel = 512;

bool IsRun(std::span<const RowIndex> rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[0] + i) return false;
  }
  return true;
}

void GatherRows(ConstMatrixView values, std::span<const RowIndex> rows, MutableMatrixView out) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy_n(values.row(rows[i]).data(), values.cols(), out.row(i).data());
}

std::vector<double> GatherNorms(const kernel::Features& features, std::span<const RowIndex> rows) {
  std::vector<double> norms(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) norms[i] = features.squared_norms()[rows[i]];
  return norms;
}

/// Inner products of tiles; dense features are packed once so that no tile gathers the support rows again.
class TileDots {
 public:
  TileDots(const WeightedRows& support, const kernel::Features& features)
      : support_(support), features_(features), dense_(dynamic_cast<const kernel::DenseFeatures*>(&features)) {
    const auto* dense_support = dynamic_cast<const kernel::DenseFeatures*>(support.features);
    if (dense_ == nullptr || dense_support == nullptr) {
      dense_ = nullptr;
      return;
    }
    packed_ = Matrix<double>(support.rows.size(), dense_support->dims());
    ParallelForBlocks(support.rows.size(), kGatherBlock, [&](std::size_t first, std::size_t count) {
      GatherRows(dense_support->values(), support.rows.subspan(first, count), packed_.view().Rows(first, count));
    });
  }

  /// The tile's rows as GEMM reads them: in place where they are neighbours, else gathered into `memory`.
  ConstMatrixView TileRows(std::span<const RowIndex> tile, Matrix<double>& memory) const {
    if (dense_ == nullptr) return {};
    if (IsRun(tile)) return dense_->values().Rows(tile[0], tile.size());
    memory = Matrix<double>(tile.size(), dense_->dims());
    GatherRows(dense_->values(), tile, memory.view());
    return memory.view();
  }

  void Compute(std::span<const RowIndex> tile, ConstMatrixView tile_rows, std::size_t first_support,
               MutableMatrixView out) const {
    if (dense_ == nullptr) {
      features_.DotBlock(tile, *support_.features, support_.rows.subspan(first_support, out.cols()), out);
      return;
    }
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, tile_rows,
                 packed_.view().Rows(first_support, out.cols()), 0.0, out);
  }

 private:
  const WeightedRows& support_;
  const kernel::Features& features_;
  const kernel::DenseFeatures* dense_;  // null: by DotBlock
  Matrix<double> packed_;
};

/// One column is far better served by a matrix-vector product, which needs its coefficients without gaps.
void MultiplyTile(ConstMatrixView kernel_tile, ConstMatrixView coefficients, MutableMatrixView out) {
  if (out.cols() > 1) {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kNo, 1.0, kernel_tile, coefficients, 1.0, out);
    return;
  }
  std::vector<double> weights(coefficients.rows()), sums(kernel_tile.rows());
  for (std::size_t s = 0; s < weights.size(); ++s) weights[s] = coefficients(s, 0);
  linalg::Gemv(linalg::Transpose::kNo, 1.0, kernel_tile, weights, 0.0, sums);
  for (std::size_t i = 0; i < sums.size(); ++i) out(i, 0) += sums[i];
}

/// What a tile of float32 kernel values adds to its rows' sums, which are doubles. `weights` has a row an output
/// column.
void AddFloatTile(MatrixView<const float> kernel_tile, MatrixView<const float> weights, MutableMatrixView out) {
  Matrix<float> sums(out.cols(), out.rows());
  if (out.cols() == 1) {
    linalg::Gemv(linalg::Transpose::kNo, 1.0F, kernel_tile, weights.row(0), 0.0F, sums.row(0));
  } else {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0F, weights, kernel_tile, 0.0F, sums.view());
  }
  for (std::size_t i = 0; i < out.rows(); ++i) {
    for (std::size_t p = 0; p < out.cols(); ++p) out(i, p) += static_cast<double>(sums(p, i));
  }
}

/// What a tile's sums begin with. They are in memory of their own, so that they do not depend on how `out` lies in its.
Matrix<double> StartTile(std::span<const double> offsets, bool accumulate, ConstMatrixView out) {
  Matrix<double> sums(out.rows(), out.cols());
  for (std::size_t i = 0; i < out.rows(); ++i) {
    for (std::size_t p = 0; p < out.cols(); ++p) sums(i, p) = (accumulate ? out(i, p) : 0) + offsets[p];
  }
  return sums;
}

Matrix<float> TransposedInFloat(ConstMatrixView values) {
  Matrix<float> transposed(values.cols(), values.rows());
  for (std::size_t i = 0; i < values.rows(); ++i) {
    for (std::size_t j = 0; j < values.cols(); ++j) transposed(j, i) = static_cast<float>(values(i, j));
  }
  return transposed;
}

/// The same product for a pool that is not in memory: rows are copied once a tile, kernel values are float32.
void FloatKernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                        std::span<const RowIndex> rows, std::span<const double> offsets, bool accumulate,
                        MutableMatrixView out) {
  const kernel::FloatColumns columns(kernel, *support.features, support.rows);
  const Matrix<float> weights = TransposedInFloat(support.coefficients);
  ParallelForBlocks(rows.size(), kFloatTileRows, [&](std::size_t first, std::size_t count) {
    const kernel::FloatBlock block = columns.CopyBlock(rows.subspan(first, count));
    const MutableMatrixView out_tile = out.Rows(first, count);
    Matrix<float> kernel_tile(count, kFloatPanel);
    Matrix<double> sums = StartTile(offsets, accumulate, out_tile);
    for (std::size_t s = 0; s < columns.size(); s += kFloatPanel) {
      const std::size_t width = std::min(kFloatPanel, columns.size() - s);
      const MatrixView<float> values = kernel_tile.view().Cols(0, width);
      columns.WriteTile(block, s, values);
      AddFloatTile(values, weights.view().Cols(s, width), sums.view());
    }
    CopyMatrix<double>(sums.view(), out_tile);
  });
}

}  // namespace

void KernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support, const kernel::Features& features,
                   std::span<const RowIndex> rows, std::span<const double> offsets, bool accumulate,
                   MutableMatrixView out) {
  assert(support.features->dims() == features.dims() && support.coefficients.rows() == support.rows.size());
  assert(out.rows() == rows.size() && out.cols() == offsets.size());
  if (features.prefers_float() && support.features == &features) {
    FloatKernelProduct(kernel, support, rows, offsets, accumulate, out);
    return;
  }
  if (support.features->prefers_float()) {
    // Other rows (a test set) are in memory; then the few support vectors may be, too.
    const std::unique_ptr<kernel::Features> gathered = support.features->Gather(support.rows);
    RowList all(support.rows.size());
    std::iota(all.begin(), all.end(), RowIndex{0});
    KernelProduct(kernel, {gathered.get(), all, support.coefficients}, features, rows, offsets, accumulate, out);
    return;
  }
  const TileDots dots(support, features);
  const std::vector<double> support_norms = GatherNorms(*support.features, support.rows);
  const std::size_t panel = std::min(kPanel, support.rows.size());
  ParallelForBlocks(rows.size(), kTileRows, [&](std::size_t first, std::size_t count) {
    const auto tile = rows.subspan(first, count);
    const std::vector<double> tile_norms = GatherNorms(features, tile);
    const MutableMatrixView out_tile = out.Rows(first, count);
    Matrix<double> gathered, kernel_tile(count, panel);
    const ConstMatrixView tile_rows = dots.TileRows(tile, gathered);
    Matrix<double> sums = StartTile(offsets, accumulate, out_tile);
    for (std::size_t s = 0; s < support.rows.size(); s += panel) {
      const std::size_t width = std::min(panel, support.rows.size() - s);
      const MutableMatrixView values = kernel_tile.view().Cols(0, width);
      dots.Compute(tile, tile_rows, s, values);
      kernel::ApplyKernelToDots(kernel, tile_norms, std::span(support_norms).subspan(s, width), values);
      MultiplyTile(values, support.coefficients.Rows(s, width), sums.view());
    }
    CopyMatrix<double>(sums.view(), out_tile);
  });
}

}  // namespace fulcrum::classify
