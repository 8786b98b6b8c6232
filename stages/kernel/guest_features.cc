#include "stages/kernel/guest_features.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
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
