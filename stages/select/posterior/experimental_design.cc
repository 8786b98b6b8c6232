#include <algorithm>
#include <cmath>
#include <numeric>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/select/posterior/posterior.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kRowsPerTask = 256;

}  // namespace

PoolKernel::PoolKernel(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       std::size_t rows_in_memory)
    : kernel_(kernel), features_(features), all_rows_(features.rows()) {
  std::iota(all_rows_.begin(), all_rows_.end(), RowIndex{0});
  if (size() > rows_in_memory) {
    tiles_.emplace(kernel_, features_, all_rows_, kernel::ColumnMemory::kStreamed);
    return;
  }
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
  ParallelForBlocks(size(), kRowsPerTask, [&](std::size_t first_row, std::size_t row_count) {
    if (!matrix_.empty()) {
      visitor(first_row, 0, matrix_.view().Rows(first_row, row_count));
      return;
    }
    const auto shifted = [&](std::size_t row, std::size_t column, ConstMatrixView tile) {
      visitor(first_row + row, column, tile);
    };
    tiles_->ForEachTile(tiles_->Pack(std::span(all_rows_).subspan(first_row, row_count)), shifted);
  });
}

void PoolKernel::Multiply(std::span<const double> x, std::span<double> y) const {
  std::fill(y.begin(), y.end(), 0.0);
  VisitTiles([&](std::size_t first_row, std::size_t first_col, ConstMatrixView tile) {
    linalg::Gemv(linalg::Transpose::kNo, 1.0, tile, x.subspan(first_col, tile.cols()), 1.0,
                 y.subspan(first_row, tile.rows()));
  });
}

namespace {

using linalg::Transpose;

constexpr std::size_t kRowsPerBlock = 256;

double SquaredNorm(std::span<const double> x) {
  return linalg::Dot(x, x);
}

}  // namespace

ExperimentalDesign::ExperimentalDesign(const PoolKernel& kernel, double mu, std::size_t capacity)
    : kernel_(&kernel),
      mu_(mu),
      column_norms_(kernel.size(), 0.0),
      diagonal_(kernel.Diagonal()),
      vectors_(kernel.size(), capacity) {}

absl::StatusOr<ExperimentalDesign> ExperimentalDesign::Start(const PoolKernel& kernel, double mu,
                                                             std::span<const RowIndex> taken, std::size_t further) {
  ExperimentalDesign design(kernel, mu, taken.size() + further);
  FULCRUM_RETURN_IF_ERROR(design.Deflate(taken));
  design.ComputeColumnNorms();
  return design;
}

// With L L' = K_tt + mu I, deflating by all of t at once is V = K(:,t) L^-T.
absl::Status ExperimentalDesign::Deflate(std::span<const RowIndex> taken) {
  taken_ = taken.size();
  if (taken.empty()) return absl::OkStatus();
  const MutableMatrixView vectors = vectors_.view().Cols(0, taken_);
  kernel_->Columns(taken, vectors);
  Matrix<double> among_taken(taken_, taken_);
  for (std::size_t i = 0; i < taken_; ++i) {
    for (std::size_t j = 0; j <= i; ++j) among_taken(i, j) = among_taken(j, i) = vectors(taken[i], j);
    among_taken(i, i) += mu_;
  }
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> lower, linalg::FactorCholesky(std::move(among_taken)));
  ParallelForBlocks(kernel_->size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    linalg::SolveLowerForRows(lower.view(), vectors.Rows(first, count));
    for (std::size_t i = first; i < first + count; ++i) diagonal_[i] -= SquaredNorm(vectors.row(i));
  });
  return absl::OkStatus();
}

// |K'(:,i)|^2 = |K(:,i)|^2 - 2 v_i' (K V)_i + v_i' (V'V) v_i, v_i the i-th row of V.
void ExperimentalDesign::ComputeColumnNorms() {
  const ConstMatrixView v = vectors();
  Matrix<double> kernel_times_v = Matrix<double>::Zero(kernel_->size(), taken_);
  kernel_->VisitTiles([&](std::size_t first_row, std::size_t first_col, ConstMatrixView tile) {
    for (std::size_t i = 0; i < tile.rows(); ++i) column_norms_[first_row + i] += SquaredNorm(tile.row(i));
    linalg::Gemm(Transpose::kNo, Transpose::kNo, 1.0, tile, v.Rows(first_col, tile.cols()), 1.0,
                 kernel_times_v.view().Rows(first_row, tile.rows()));
  });
  if (taken_ == 0) return;
  Matrix<double> gram(taken_, taken_);
  linalg::Gemm(Transpose::kYes, Transpose::kNo, 1.0, v, v, 0.0, gram.view());
  ParallelForBlocks(kernel_->size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
    Matrix<double> correction(count, taken_);
    linalg::Gemm(Transpose::kNo, Transpose::kNo, 1.0, v.Rows(first, count), gram.view(), 0.0, correction.view());
    for (std::size_t i = 0; i < count; ++i) {
      linalg::Axpy(-2.0, kernel_times_v.row(first + i), correction.row(i));
      column_norms_[first + i] += linalg::Dot(v.row(first + i), correction.row(i));
    }
  });
}

// With v = K'(:,i) / sqrt(K'(i,i) + mu) and K'' = K' - v v':
//   |K''(:,j)|^2 = |K'(:,j)|^2 - 2 v_j (K' v)_j + v_j^2 |v|^2, which needs one product K v.
void ExperimentalDesign::Take(RowIndex row) {
  const std::size_t size = kernel_->size();
  const double scale = 1 / std::sqrt(diagonal_[row] + mu_);
  const std::vector<double> own(vectors().row(row).begin(), vectors().row(row).end());
  Matrix<double> column(size, 1);
  kernel_->Columns(std::span(&row, 1), column.view());
  std::vector<double> v(size);
  for (std::size_t i = 0; i < size; ++i) v[i] = column(i, 0) * scale;
  if (taken_ > 0) linalg::Gemv(Transpose::kNo, -scale, vectors(), own, 1.0, v);
  std::vector<double> product(size);
  kernel_->Multiply(v, product);
  if (taken_ > 0) {
    std::vector<double> projected(taken_);
    linalg::Gemv(Transpose::kYes, 1.0, vectors(), v, 0.0, projected);
    linalg::Gemv(Transpose::kNo, -1.0, vectors(), projected, 1.0, product);
  }
  const double squared_norm = SquaredNorm(v);
  for (std::size_t j = 0; j < size; ++j) {
    column_norms_[j] += v[j] * (v[j] * squared_norm - 2 * product[j]);
    diagonal_[j] -= v[j] * v[j];
    vectors_(j, taken_) = v[j];
  }
  ++taken_;
}

}  // namespace fulcrum::select
