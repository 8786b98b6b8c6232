#include "stages/kernel/features.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kRowsPerTask = 1024;
constexpr const char* kNoNumbers = "only the inner products of these features are known, not their numbers";

bool AreConsecutive(std::span<const RowIndex> rows) {
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[0] + i) return false;
  }
  return true;
}

float ToFloat(double value) {
  return static_cast<float>(value);
}

}  // namespace

PackedRows::PackedRows(Matrix<double> copy) : rows_(Dense{std::move(copy), {}}) {
  Dense& dense = std::get<Dense>(rows_);
  dense.values = dense.memory.view();
}

PackedRows::PackedRows(const InnerProductFeatures& source, std::span<const RowIndex> rows)
    : rows_(Named{&source, RowList(rows.begin(), rows.end())}) {}

std::size_t PackedRows::size() const {
  if (const auto* dense = std::get_if<Dense>(&rows_)) return dense->values.rows();
  if (const auto* sparse = std::get_if<SparseCopy>(&rows_)) return sparse->offsets.size() - 1;
  return std::get<Named>(rows_).rows.size();
}

Matrix<double> PackedRows::ToDense() const {
  if (const auto* dense = std::get_if<Dense>(&rows_)) return Matrix<double>::CopyOf(dense->values);
  const auto* sparse = std::get_if<SparseCopy>(&rows_);
  if (sparse == nullptr) throw std::logic_error(kNoNumbers);
  Matrix<double> values = Matrix<double>::Zero(size(), sparse->cols);
  for (std::size_t row = 0; row < values.rows(); ++row) {
    for (auto i = static_cast<std::size_t>(sparse->offsets[row]);
         i < static_cast<std::size_t>(sparse->offsets[row + 1]); ++i) {
      values(row, static_cast<std::size_t>(sparse->columns[i])) = sparse->values[i];
    }
  }
  return values;
}

namespace {

/// Some of the rows; offsets count from the first of them, which `memory` holds.
linalg::SparseRows SomeRows(const PackedRows::SparseCopy& rows, std::size_t first, std::size_t count,
                            std::vector<int>& memory) {
  memory.assign(rows.offsets.begin() + static_cast<std::ptrdiff_t>(first),
                rows.offsets.begin() + static_cast<std::ptrdiff_t>(first + count + 1));
  const int start = memory.front();
  for (int& offset : memory) offset -= start;
  const auto from = static_cast<std::size_t>(start), elements = static_cast<std::size_t>(memory.back());
  return {rows.cols, memory, std::span(rows.columns).subspan(from, elements),
          std::span(rows.values).subspan(from, elements)};
}

}  // namespace

void MultiplyRows(const PackedRows& a, std::size_t a_first, const PackedRows& b, std::size_t b_first,
                  MutableMatrixView out) {
  if (out.empty()) return;
  if (const auto* dense = std::get_if<PackedRows::Dense>(&a.rows_)) {
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, dense->values.Rows(a_first, out.rows()),
                 std::get<PackedRows::Dense>(b.rows_).values.Rows(b_first, out.cols()), 0.0, out);
  } else if (const auto* sparse = std::get_if<PackedRows::SparseCopy>(&a.rows_)) {
    std::vector<int> a_offsets, b_offsets;
    linalg::MultiplyByTransposed(SomeRows(*sparse, a_first, out.rows(), a_offsets),
                                 SomeRows(std::get<PackedRows::SparseCopy>(b.rows_), b_first, out.cols(), b_offsets),
                                 out);
  } else {
    const auto& named = std::get<PackedRows::Named>(a.rows_);
    const auto& other = std::get<PackedRows::Named>(b.rows_);
    named.source->WriteInnerProducts(std::span(named.rows).subspan(a_first, out.rows()),
                                     std::span(other.rows).subspan(b_first, out.cols()), out);
  }
}

std::vector<double> SquaredNormsOf(const Features& features, std::span<const RowIndex> rows) {
  std::vector<double> norms(rows.size());
  std::transform(rows.begin(), rows.end(), norms.begin(), [&](RowIndex row) { return features.squared_norms()[row]; });
  return norms;
}

DenseFeatures::DenseFeatures(std::shared_ptr<Memory> memory, std::size_t rows, Precision precision)
    : memory_(std::move(memory)), values_(memory_->rows.whole().Rows(0, rows)), precision_(precision) {}

DenseFeatures::DenseFeatures(Matrix<double> values, Precision precision)
    : memory_(std::make_shared<Memory>()), precision_(precision) {
  memory_->used = values.rows();
  memory_->rows = std::move(values);
  values_ = memory_->rows.view();
  ComputeNorms(0);
}

DenseFeatures::~DenseFeatures() {
  const std::scoped_lock lock(memory_->mutex);
  // Without this one, the rows that it alone had are free again: those of an append that was refused.
  if (memory_->used == values_.rows() && own_first_ < values_.rows()) memory_->used = own_first_;
}

void DenseFeatures::ComputeNorms(std::size_t before) {
  squared_norms_.resize(values_.rows());
  ParallelForBlocks(values_.rows() - before, kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = before + first; row < before + first + count; ++row) {
      squared_norms_[row] = linalg::Dot(values_.row(row), values_.row(row));
    }
  });
}

std::unique_ptr<DenseFeatures> DenseFeatures::With(ConstMatrixView more) const {
  const std::size_t rows = values_.rows() + more.rows();
  std::shared_ptr<Memory> memory = memory_;
  {
    const std::scoped_lock lock(memory_->mutex);
    // Others have continued these rows, or there is no room.
    if (memory_->used != values_.rows() || memory_->rows.capacity() < rows) memory = nullptr;
    if (memory != nullptr) memory->used = rows;
  }
  if (memory == nullptr) {
    memory = std::make_shared<Memory>();
    memory->rows = Matrix<double>::WithCapacity(0, values_.cols(), 2 * rows);
    memory->used = rows;
    CopyMatrix<double>(values_, memory->rows.whole().Rows(0, values_.rows()));
  }
  CopyMatrix<double>(more, memory->rows.whole().Rows(values_.rows(), more.rows()));
  std::unique_ptr<DenseFeatures> grown(new DenseFeatures(std::move(memory), rows, precision_));
  grown->own_first_ = values_.rows();
  grown->squared_norms_ = squared_norms_;
  grown->ComputeNorms(values_.rows());
  return grown;
}

PackedRows DenseFeatures::Pack(std::span<const RowIndex> rows) const {
  if (!rows.empty() && AreConsecutive(rows)) return PackedRows(values_.Rows(rows[0], rows.size()));
  Matrix<double> copy(rows.size(), dims());
  ParallelForBlocks(rows.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) std::ranges::copy(values_.row(rows[i]), copy.row(i).begin());
  });
  return PackedRows(std::move(copy));
}

void DenseFeatures::CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const {
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::transform(values_.row(rows[i]), out.row(i).begin(), ToFloat);
}

SparseFeatures::SparseFeatures(SparseMatrix values) : values_(std::move(values)) {
  squared_norms_.resize(values_.rows());
  ParallelForBlocks(values_.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      const std::span<const double> elements = std::as_const(values_).ValuesOf(row);
      squared_norms_[row] = linalg::Dot(elements, elements);
    }
  });
}

PackedRows SparseFeatures::Pack(std::span<const RowIndex> rows) const {
  std::size_t elements = 0;
  for (RowIndex row : rows) elements += values_.ColumnsOf(row).size();
  if (elements > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw std::length_error("these rows have more elements than a sparse product can count");
  }
  PackedRows::SparseCopy copy{.cols = values_.cols};
  copy.offsets.reserve(rows.size() + 1);
  copy.columns.reserve(elements);
  copy.values.reserve(elements);
  for (RowIndex row : rows) {
    const auto columns = values_.ColumnsOf(row);
    const auto values = values_.ValuesOf(row);
    copy.columns.insert(copy.columns.end(), columns.begin(), columns.end());
    copy.values.insert(copy.values.end(), values.begin(), values.end());
    copy.offsets.push_back(static_cast<int>(copy.columns.size()));
  }
  return PackedRows(std::move(copy));
}

void SparseFeatures::CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::ranges::fill(out.row(i), 0.0F);
    const auto columns = values_.ColumnsOf(rows[i]);
    const auto values = values_.ValuesOf(rows[i]);
    for (std::size_t j = 0; j < columns.size(); ++j) {
      out(i, static_cast<std::size_t>(columns[j])) = ToFloat(values[j]);
    }
  }
}

void InnerProductFeatures::CopyRows(std::span<const RowIndex>, MatrixView<float>) const {
  throw std::logic_error(kNoNumbers);
}

namespace {

std::vector<double> ValuesOf(const Features& features, std::span<const RowIndex> rows) {
  const Matrix<double> dense = features.Pack(rows).ToDense();
  std::vector<double> values;
  values.reserve(rows.size() * features.dims());
  for (std::size_t i = 0; i < rows.size(); ++i) values.insert(values.end(), dense.row(i).begin(), dense.row(i).end());
  return values;
}

Matrix<double> FromValues(const std::vector<double>& values, std::size_t dims) {
  return Matrix<double>::CopyOf(ConstMatrixView(values.data(), dims == 0 ? 0 : values.size() / dims, dims));
}

}  // namespace

GuestFeatures::GuestFeatures(const Features& own) : own_(own), own_rows_(own.rows()) {
  squared_norms_.assign(own.squared_norms().begin(), own.squared_norms().end());
}

RowList GuestFeatures::Add(ConstMatrixView rows) {
  RowList numbers(rows.rows());
  std::iota(numbers.begin(), numbers.end(), static_cast<RowIndex>(squared_norms_.size()));
  for (std::size_t i = 0; i < rows.rows(); ++i) {
    const std::span<const double> row = rows.row(i);
    guests_.insert(guests_.end(), row.begin(), row.end());
    squared_norms_.push_back(linalg::Dot(row, row));
  }
  return numbers;
}

void GuestFeatures::DropFrom(std::size_t first) {
  squared_norms_.resize(first);
  guests_.resize((first - own_rows_) * dims());
}

PackedRows GuestFeatures::Pack(std::span<const RowIndex> rows) const {
  const auto is_own = [this](RowIndex row) { return row < own_rows_; };
  if (std::ranges::all_of(rows, is_own)) return own_.Pack(rows);
  Matrix<double> copy(rows.size(), dims());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_own(rows[i])) {
      const Matrix<double> row = own_.Pack(rows.subspan(i, 1)).ToDense();
      std::ranges::copy(row.row(0), copy.row(i).begin());
    } else {
      std::ranges::copy(GuestAt(rows[i]), copy.row(i).begin());
    }
  }
  return PackedRows(std::move(copy));
}

void GuestFeatures::CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const {
  // Own rows come in runs: blocks of a pass have no guests.
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i;
    while (end < rows.size() && rows[end] < own_rows_) ++end;
    if (end > i) {
      own_.CopyRows(rows.subspan(i, end - i), out.Rows(i, end - i));
      i = end;
      continue;
    }
    std::ranges::transform(GuestAt(rows[i]), out.row(i).begin(),
                           [](double value) { return static_cast<float>(value); });
    ++i;
  }
}

Matrix<double> ShareRows(const Communicator& peers, const Features& features, std::span<const RowIndex> rows) {
  return FromValues(ShareValues(peers, ValuesOf(features, rows)), features.dims());
}

Matrix<double> GatherRows(const Communicator& peers, const Features& features, std::span<const RowIndex> rows) {
  return FromValues(GatherValues(peers, ValuesOf(features, rows)), features.dims());
}

}  // namespace fulcrum::kernel
