#include "stages/kernel/features.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/sparse_product.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRowsPerTask = 1024;

bool AreConsecutive(std::span<const RowIndex> rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[0] + i) return false;
  }
  return true;
}

void CopyDoubleRows(ConstMatrixView source, std::span<const RowIndex> rows, MutableMatrixView out) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(source.row(rows[i]).data(), source.cols(), out.row(i).data());
  }
}

/// The named rows side by side in memory: a view of the source where they lie so already, else a copy in `packed`.
ConstMatrixView SideBySide(ConstMatrixView source, std::span<const RowIndex> rows, Matrix<double>& packed) {
  if (rows.empty()) return {source.data(), 0, source.cols(), source.stride()};
  if (AreConsecutive(rows)) return source.Rows(rows[0], rows.size());
  packed = Matrix<double>(rows.size(), source.cols());
  CopyDoubleRows(source, rows, packed.view());
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
  linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, SideBySide(values_.view(), a, packed_a),
               SideBySide(dense_other.values(), b, packed_b), 0.0, out);
}

std::unique_ptr<Features> DenseFeatures::Gather(std::span<const RowIndex> rows) const {
  Matrix<double> gathered(rows.size(), dims());
  ParallelForBlocks(rows.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    CopyDoubleRows(values_.view(), rows.subspan(first, count), gathered.view().Rows(first, count));
  });
  return std::make_unique<DenseFeatures>(std::move(gathered));
}

bool DenseFeatures::CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = values_.row(rows[i]);
    std::transform(row.begin(), row.end(), out.row(i).begin(), [](double value) { return static_cast<float>(value); });
  }
  return true;
}

namespace {

/// The named rows side by side, with offsets as narrow as MKL wants them.
class PackedRows {
 public:
  PackedRows(const SparseMatrix& matrix, std::span<const RowIndex> rows) : cols_(matrix.cols) {
    std::size_t elements = 0;
    for (RowIndex row : rows) elements += matrix.ColumnsOf(row).size();
    offsets_.reserve(rows.size() + 1);
    offsets_.push_back(0);
    columns_.reserve(elements);
    values_.reserve(elements);
    for (RowIndex row : rows) {
      const auto columns = matrix.ColumnsOf(row);
      const auto values = matrix.ValuesOf(row);
      columns_.insert(columns_.end(), columns.begin(), columns.end());
      values_.insert(values_.end(), values.begin(), values.end());
      offsets_.push_back(static_cast<int>(columns_.size()));
    }
  }

  linalg::SparseRows view() const { return {cols_, offsets_, columns_, values_}; }

 private:
  std::size_t cols_;
  std::vector<int> offsets_;
  std::vector<int> columns_;
  std::vector<double> values_;
};

}  // namespace

SparseFeatures::SparseFeatures(SparseMatrix values) : values_(std::move(values)) {
  squared_norms_.resize(values_.rows());
  ParallelForBlocks(values_.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      const std::span<const double> elements = std::as_const(values_).ValuesOf(row);
      squared_norms_[row] = linalg::Dot(elements, elements);
    }
  });
}

void SparseFeatures::DotBlock(std::span<const RowIndex> a, const Features& other, std::span<const RowIndex> b,
                              MutableMatrixView out) const {
  const auto& sparse_other = static_cast<const SparseFeatures&>(other);
  assert(sparse_other.dims() == dims());
  if (out.empty()) return;
  const PackedRows left(values_, a), right(sparse_other.values(), b);
  linalg::MultiplyByTransposed(left.view(), right.view(), out);
}

std::unique_ptr<Features> SparseFeatures::Gather(std::span<const RowIndex> rows) const {
  SparseMatrix gathered;
  gathered.cols = values_.cols;
  for (RowIndex row : rows) {
    const auto columns = values_.ColumnsOf(row);
    const auto values = values_.ValuesOf(row);
    gathered.columns.insert(gathered.columns.end(), columns.begin(), columns.end());
    gathered.values.insert(gathered.values.end(), values.begin(), values.end());
    gathered.offsets.push_back(gathered.values.size());
  }
  return std::make_unique<SparseFeatures>(std::move(gathered));
}

}  // namespace fulcrum::kernel
