#include "stages/classify/kernel_product.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <numeric>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::classify {
namespace {

// A tile of 512 x 1024 doubles is four megabytes: large enough for GEMM to run at its rate, small enough for the cache.
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
  const WeightedRows support_;
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

}  // namespace

/// How the kernel of a tile of rows is computed and summed.
class KernelProduct::Tiles {
 public:
  virtual ~Tiles() = default;
  virtual std::size_t rows_at_once() const = 0;
  /// Brings a tile of rows into memory, if it is not there already.
  virtual void Read(std::span<const RowIndex> tile, Block& block) const = 0;
  /// sums(i, p) += sum_s K(x_{tile[i]}, z_s) coefficients(s, p), for the tile with this number of the block.
  virtual void AddTo(const Block& block, std::size_t tile, MutableMatrixView sums) const = 0;
};

class KernelProduct::DoubleTiles final : public Tiles {
 public:
  DoubleTiles(const kernel::KernelFunction& kernel, const WeightedRows& support, const kernel::Features& features)
      : kernel_(kernel),
        support_(WithoutMapping(support)),
        features_(features),
        dots_(support_, features),
        support_norms_(GatherNorms(*support_.features, support_.rows)) {}

  std::size_t rows_at_once() const override { return kTileRows; }

  void Read(std::span<const RowIndex>, Block&) const override {}

  void AddTo(const Block& block, std::size_t number, MutableMatrixView sums) const override {
    const std::span<const RowIndex> tile = block.rows.subspan(number * kTileRows, sums.rows());
    const std::vector<double> tile_norms = GatherNorms(features_, tile);
    const std::size_t panel = std::min(kPanel, support_.rows.size());
    Matrix<double> gathered, kernel_tile(tile.size(), panel);
    const ConstMatrixView tile_rows = dots_.TileRows(tile, gathered);
    for (std::size_t s = 0; s < support_.rows.size(); s += panel) {
      const std::size_t width = std::min(panel, support_.rows.size() - s);
      const MutableMatrixView values = kernel_tile.view().Cols(0, width);
      dots_.Compute(tile, tile_rows, s, values);
      kernel::ApplyKernelToDots(kernel_, tile_norms, std::span(support_norms_).subspan(s, width), values);
      MultiplyTile(values, support_.coefficients.Rows(s, width), sums);
    }
  }

 private:
  /// Other rows than those of a mapped pool (a test set) are in memory; then the few support vectors may be, too.
  WeightedRows WithoutMapping(const WeightedRows& support) {
    if (!support.features->prefers_float()) return support;
    gathered_ = support.features->Gather(support.rows);
    all_.resize(support.rows.size());
    std::iota(all_.begin(), all_.end(), RowIndex{0});
    return {gathered_.get(), all_, support.coefficients};
  }

  const kernel::KernelFunction kernel_;
  std::unique_ptr<kernel::Features> gathered_;
  RowList all_;
  const WeightedRows support_;
  const kernel::Features& features_;
  const TileDots dots_;
  const std::vector<double> support_norms_;
};

/// For a pool that is not in memory: rows are copied once a tile, kernel values are float32.
class KernelProduct::FloatTiles final : public Tiles {
 public:
  FloatTiles(const kernel::KernelFunction& kernel, const WeightedRows& support)
      : columns_(kernel, *support.features, support.rows), weights_(TransposedInFloat(support.coefficients)) {}

  std::size_t rows_at_once() const override { return kFloatTileRows; }

  void Read(std::span<const RowIndex> tile, Block& block) const override {
    block.copied.push_back(columns_.CopyBlock(tile));
  }

  void AddTo(const Block& block, std::size_t number, MutableMatrixView sums) const override {
    Matrix<float> kernel_tile(sums.rows(), kFloatPanel);
    for (std::size_t s = 0; s < columns_.size(); s += kFloatPanel) {
      const std::size_t width = std::min(kFloatPanel, columns_.size() - s);
      const MatrixView<float> values = kernel_tile.view().Cols(0, width);
      columns_.WriteTile(block.copied[number], s, values);
      AddFloatTile(values, weights_.view().Cols(s, width), sums);
    }
  }

 private:
  const kernel::FloatColumns columns_;
  const Matrix<float> weights_;
};

KernelProduct::KernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                             const kernel::Features& features) {
  assert(support.features->dims() == features.dims() && support.coefficients.rows() == support.rows.size());
  if (features.prefers_float() && support.features == &features) {
    tiles_ = std::make_unique<FloatTiles>(kernel, support);
  } else {
    tiles_ = std::make_unique<DoubleTiles>(kernel, support, features);
  }
}

KernelProduct::~KernelProduct() = default;

KernelProduct::Block KernelProduct::Read(std::span<const RowIndex> rows) const {
  Block block{.rows = rows};
  for (std::size_t first = 0; first < rows.size(); first += tiles_->rows_at_once()) {
    ThrowIfStopRequested();
    tiles_->Read(rows.subspan(first, std::min(tiles_->rows_at_once(), rows.size() - first)), block);
  }
  return block;
}

void KernelProduct::Compute(std::span<const RowIndex> rows, std::span<const double> offsets, bool accumulate,
                            MutableMatrixView out) const {
  Compute(Read(rows), offsets, accumulate, out);
}

void KernelProduct::Compute(const Block& block, std::span<const double> offsets, bool accumulate,
                            MutableMatrixView out) const {
  assert(out.rows() == block.rows.size() && out.cols() == offsets.size());
  const std::size_t tile_rows = tiles_->rows_at_once();
  for (std::size_t tile = 0; tile * tile_rows < block.rows.size(); ++tile) {
    ThrowIfStopRequested();
    const std::size_t first = tile * tile_rows;
    const MutableMatrixView out_tile = out.Rows(first, std::min(tile_rows, block.rows.size() - first));
    Matrix<double> sums = StartTile(offsets, accumulate, out_tile);
    tiles_->AddTo(block, tile, sums.view());
    CopyMatrix<double>(sums.view(), out_tile);
  }
}

void ComputeKernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                          const kernel::Features& features, std::span<const RowIndex> rows,
                          std::span<const double> offsets, bool accumulate, MutableMatrixView out) {
  const KernelProduct product(kernel, support, features);
  ParallelForBlocks(rows.size(), KernelProduct::kTileRows, [&](std::size_t first, std::size_t count) {
    product.Compute(rows.subspan(first, count), offsets, accumulate, out.Rows(first, count));
  });
}

}  // namespace fulcrum::classify
