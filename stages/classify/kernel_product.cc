#include <algorithm>
#include <cassert>

#include "stages/classify/svm_model.h"
#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::classify {
namespace {

using linalg::Transpose;

template <typename T>
Matrix<T> Transposed(ConstMatrixView values) {
  Matrix<T> transposed(values.cols(), values.rows());
  for (std::size_t i = 0; i < values.rows(); ++i) {
    for (std::size_t j = 0; j < values.cols(); ++j) transposed(j, i) = static_cast<T>(values(i, j));
  }
  return transposed;
}

/// Adds what a tile contributes to the sums of its rows. `weights` has one row per output column.
template <typename T>
void AddTile(MatrixView<const T> tile, MatrixView<const T> weights, MutableMatrixView sums) {
  Matrix<T> products(sums.cols(), sums.rows());
  if (sums.cols() == 1) {
    // A matrix-vector product is much faster than GEMM for one column.
    linalg::Gemv(Transpose::kNo, T{1}, tile, weights.row(0), T{0}, products.row(0));
  } else {
    linalg::Gemm(Transpose::kNo, Transpose::kYes, T{1}, weights, tile, T{0}, products.view());
  }
  for (std::size_t i = 0; i < sums.rows(); ++i) {
    for (std::size_t p = 0; p < sums.cols(); ++p) sums(i, p) += static_cast<double>(products(p, i));
  }
}

}  // namespace

class KernelProduct::Sums {
 public:
  virtual ~Sums() = default;
  virtual Block Read(std::span<const RowIndex> rows) const = 0;
  /// out(i, p) += sum_s K(row i of the block, z_s) coefficients(s, p).
  virtual void AddTo(const Block& block, MutableMatrixView out) const = 0;
};

template <typename T>
class KernelProduct::SumsOfTiles final : public Sums {
 public:
  SumsOfTiles(const kernel::KernelFunction& kernel, const WeightedRows& support, const kernel::Features& features)
      : features_(features),
        tiles_(kernel, *support.features, support.rows),
        weights_(Transposed<T>(support.coefficients)) {}

  Block Read(std::span<const RowIndex> rows) const override { return tiles_.Pack(features_, rows); }

  void AddTo(const Block& block, MutableMatrixView out) const override {
    tiles_.ForEachTile(block, [&](std::size_t row, std::size_t column, MatrixView<const T> tile) {
      AddTile<T>(tile, weights_.view().Cols(column, tile.cols()), out.Rows(row, tile.rows()));
    });
  }

 private:
  static_assert(kBlockRows % kernel::KernelTiles<T>::kRows == 0);

  const kernel::Features& features_;
  const kernel::KernelTiles<T> tiles_;
  const Matrix<T> weights_;
};

KernelProduct::KernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                             const kernel::Features& features) {
  assert(support.features->dims() == features.dims() && support.coefficients.rows() == support.rows.size());
  // Other rows than those of the pool (a test set) are in memory and few.
  if (features.precision() == kernel::Precision::kFloat && support.features == &features) {
    sums_ = std::make_unique<SumsOfTiles<float>>(kernel, support, features);
  } else {
    sums_ = std::make_unique<SumsOfTiles<double>>(kernel, support, features);
  }
}

KernelProduct::~KernelProduct() = default;

KernelProduct::Block KernelProduct::Read(std::span<const RowIndex> rows) const {
  return sums_->Read(rows);
}

void KernelProduct::Compute(std::span<const RowIndex> rows, std::span<const double> offsets, bool accumulate,
                            MutableMatrixView out) const {
  Compute(Read(rows), offsets, accumulate, out);
}

void KernelProduct::Compute(const Block& block, std::span<const double> offsets, bool accumulate,
                            MutableMatrixView out) const {
  assert(out.rows() == block.size && out.cols() == offsets.size());
  for (std::size_t i = 0; i < out.rows(); ++i) {
    for (std::size_t p = 0; p < out.cols(); ++p) out(i, p) = (accumulate ? out(i, p) : 0) + offsets[p];
  }
  sums_->AddTo(block, out);
}

void ComputeKernelProduct(const kernel::KernelFunction& kernel, const WeightedRows& support,
                          const kernel::Features& features, std::span<const RowIndex> rows,
                          std::span<const double> offsets, bool accumulate, MutableMatrixView out) {
  const KernelProduct product(kernel, support, features);
  ParallelForBlocks(rows.size(), KernelProduct::kBlockRows, [&](std::size_t first, std::size_t count) {
    product.Compute(rows.subspan(first, count), offsets, accumulate, out.Rows(first, count));
  });
}

}  // namespace fulcrum::classify
