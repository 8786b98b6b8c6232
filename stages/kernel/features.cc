#include "stages/kernel/features.h"

#include <algorithm>
#include <cassert>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRowsPerTask = 1024;

bool AreConsecutive(std::span<const RowIndex> rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[0] + i) return false;
  }
  return true;
}

/// The named rows side by side in memory: a view of the source where they lie so already, else a copy in `packed`.
ConstMatrixView Gather(ConstMatrixView source, std::span<const RowIndex> rows, Matrix<double>& packed) {
  if (rows.empty()) return {source.data(), 0, source.cols(), source.stride()};
  if (AreConsecutive(rows)) return source.Rows(rows[0], rows.size());
  packed = Matrix<double>(rows.size(), source.cols());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(source.row(rows[i]).data(), source.cols(), packed.row(i).data());
  }
  return packed.view();
}

}  // namespace

DenseFeatures::DenseFeatures(Matrix<double> values) : values_(std::move(values)) {
  squared_norms_.resize(values_.rows());
  ParallelForBlocks(values_.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      squared_norms_[row] = linalg::Dot(values_.row(row), values_.row(row));
    }
  });
}

void DenseFeatures::DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                             MutableMatrixView out) const {
  const auto& dense_other = static_cast<const DenseFeatures&>(other);
  assert(dense_other.dims() == dims());
  Matrix<double> packed_a, packed_b;
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, Gather(values_.view(), a, packed_a),
               Gather(dense_other.values(), b, packed_b), 0.0, out);
}

}  // namespace fulcrum::kernel
