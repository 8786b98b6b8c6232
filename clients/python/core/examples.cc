#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/python/core/core_module.h"
#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::python {
namespace {

constexpr std::size_t kRowsPerTask = 512;

double SquaredNorm(std::span<const double> values) {
  return linalg::Dot(values, values);
}

/// Compares exponents, which compilers make vector instructions of; a number that is not finite has all bits of it set.
bool AllFinite(std::span<const double> values) {
  constexpr std::uint64_t kExponent = std::uint64_t{0x7ff} << 52;
  std::uint64_t bad = 0;
  for (const double value : values) bad |= (std::bit_cast<std::uint64_t>(value) & kExponent) == kExponent ? 1 : 0;
  return bad == 0;
}

bool AllFinite(std::span<const float> values) {
  constexpr std::uint32_t kExponent = std::uint32_t{0xff} << 23;
  std::uint32_t bad = 0;
  for (const float value : values) bad |= (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1 : 0;
  return bad == 0;
}

/// The first row for which `is_bad` holds, or the number of rows.
template <typename IsBad>
std::size_t FirstBadRow(std::size_t rows, const IsBad& is_bad) {
  std::atomic<std::size_t> found = rows;
  ParallelForBlocks(rows, kRowsPerTask, [&](std::size_t first, std::size_t count) {
    for (std::size_t row = first; row < first + count; ++row) {
      if (!is_bad(row)) continue;
      std::size_t known = found.load();
      while (row < known && !found.compare_exchange_weak(known, row)) {
      }
      return;
    }
  });
  return found;
}

template <typename T>
absl::Status CheckDense(MatrixView<const T> examples) {
  const std::size_t row = FirstBadRow(examples.rows(), [&](std::size_t i) { return !AllFinite(examples.row(i)); });
  if (row == examples.rows()) return absl::OkStatus();
  const std::span<const T> values = examples.row(row);
  const auto at = std::ranges::find_if_not(values, [](T value) { return std::isfinite(value); });
  return absl::InvalidArgumentError(absl::StrCat("X[", row, ", ", at - values.begin(), "] is ",
                                                 std::isnan(*at) ? "NaN" : "infinity",
                                                 "; fill in or remove such rows first"));
}

std::span<const std::int32_t> ColumnsOf(const CsrView& examples, std::size_t row) {
  const auto begin = static_cast<std::size_t>(examples.offsets[row]);
  return examples.columns.subspan(begin, static_cast<std::size_t>(examples.offsets[row + 1]) - begin);
}

std::span<const double> ValuesOf(const CsrView& examples, std::size_t row) {
  const auto begin = static_cast<std::size_t>(examples.offsets[row]);
  return examples.values.subspan(begin, static_cast<std::size_t>(examples.offsets[row + 1]) - begin);
}

absl::Status CheckSparse(const CsrView& examples) {
  const auto elements = static_cast<std::int64_t>(std::min(examples.columns.size(), examples.values.size()));
  std::int64_t last = 0;
  for (const std::int64_t offset : examples.offsets) {
    if (offset < last || offset > elements)
      return absl::InvalidArgumentError("X.indptr of the sparse matrix is damaged");
    last = offset;
  }
  const std::size_t row = FirstBadRow(examples.offsets.size() - 1, [&](std::size_t i) {
    std::int64_t before = -1;
    for (const std::int32_t column : ColumnsOf(examples, i)) {
      if (column <= before || static_cast<std::size_t>(column) >= examples.cols) return true;
      before = column;
    }
    return !AllFinite(ValuesOf(examples, i));
  });
  if (row == examples.offsets.size() - 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "row ", row, " of X has a value that is not a finite number, or columns that do not ascend from 0 to ",
      examples.cols, "; fill in such values, and call X.sum_duplicates()"));
}

template <typename T>
Matrix<double> CopyDense(MatrixView<const T> examples, std::size_t first, std::size_t count) {
  Matrix<double> copy(count, examples.cols());
  ParallelForBlocks(count, kRowsPerTask, [&](std::size_t begin, std::size_t rows) {
    for (std::size_t row = begin; row < begin + rows; ++row) {
      std::ranges::copy(examples.row(first + row), copy.row(row).begin());
    }
  });
  return copy;
}

SparseMatrix CopySparse(const CsrView& examples, std::size_t first, std::size_t count) {
  SparseMatrix copy;
  copy.cols = examples.cols;
  const auto begin = static_cast<std::size_t>(examples.offsets[first]);
  const std::size_t elements = static_cast<std::size_t>(examples.offsets[first + count]) - begin;
  for (std::size_t i = 1; i <= count; ++i) {
    copy.offsets.push_back(static_cast<std::size_t>(examples.offsets[first + i]) - begin);
  }
  const auto columns = examples.columns.subspan(begin, elements);
  const auto values = examples.values.subspan(begin, elements);
  copy.columns.assign(columns.begin(), columns.end());
  copy.values.assign(values.begin(), values.end());
  return copy;
}

/// Rows of a dense array of another owner.
class DenseInPlace final : public kernel::Features {
 public:
  explicit DenseInPlace(ConstMatrixView values) : values_(values) {
    squared_norms_.resize(values.rows());
    ParallelForBlocks(values.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
      for (std::size_t row = first; row < first + count; ++row) squared_norms_[row] = SquaredNorm(values_.row(row));
    });
  }
  kernel::FeatureKind kind() const override { return kernel::FeatureKind::kDense; }
  std::size_t dims() const override { return values_.cols(); }
  kernel::PackedRows Pack(std::span<const RowIndex> rows) const override {
    bool consecutive = !rows.empty();
    for (std::size_t i = 1; consecutive && i < rows.size(); ++i) consecutive = rows[i] == rows[0] + i;
    if (consecutive) return kernel::PackedRows(values_.Rows(rows[0], rows.size()));
    Matrix<double> copy(rows.size(), dims());
    ParallelForBlocks(rows.size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) std::ranges::copy(values_.row(rows[i]), copy.row(i).begin());
    });
    return kernel::PackedRows(std::move(copy));
  }
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::ranges::transform(values_.row(rows[i]), out.row(i).begin(),
                             [](double value) { return static_cast<float>(value); });
    }
  }

 private:
  ConstMatrixView values_;
};

/// Rows of a sparse matrix of another owner.
class SparseInPlace final : public kernel::Features {
 public:
  explicit SparseInPlace(const CsrView& values) : values_(values) {
    squared_norms_.resize(values.offsets.size() - 1);
    for (std::size_t row = 0; row < rows(); ++row) squared_norms_[row] = SquaredNorm(ValuesOf(values_, row));
  }
  kernel::FeatureKind kind() const override { return kernel::FeatureKind::kSparse; }
  std::size_t dims() const override { return values_.cols; }
  kernel::PackedRows Pack(std::span<const RowIndex> rows) const override {
    std::size_t elements = 0;
    for (const RowIndex row : rows) elements += ColumnsOf(values_, row).size();
    if (elements > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw std::length_error("these rows have more elements than a sparse product can count");
    }
    kernel::PackedRows::SparseCopy copy{.cols = values_.cols};
    copy.columns.reserve(elements);
    copy.values.reserve(elements);
    for (const RowIndex row : rows) {
      const auto columns = ColumnsOf(values_, row);
      const auto values = ValuesOf(values_, row);
      copy.columns.insert(copy.columns.end(), columns.begin(), columns.end());
      copy.values.insert(copy.values.end(), values.begin(), values.end());
      copy.offsets.push_back(static_cast<int>(copy.columns.size()));
    }
    return kernel::PackedRows(std::move(copy));
  }
  void CopyRows(std::span<const RowIndex> rows, MatrixView<float> out) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::ranges::fill(out.row(i), 0.0F);
      const auto columns = ColumnsOf(values_, rows[i]);
      const auto values = ValuesOf(values_, rows[i]);
      for (std::size_t j = 0; j < columns.size(); ++j) {
        out(i, static_cast<std::size_t>(columns[j])) = static_cast<float>(values[j]);
      }
    }
  }
  std::size_t bytes() const override {
    return values_.values.size() * (sizeof(double) + sizeof(std::int32_t)) + rows() * sizeof(std::size_t);
  }

 private:
  CsrView values_;
};

template <typename... Calls>
struct Overloaded : Calls... {
  using Calls::operator()...;
};
template <typename... Calls>
Overloaded(Calls...) -> Overloaded<Calls...>;

}  // namespace

std::size_t RowsOf(const Examples& examples) {
  return std::visit(Overloaded{[](const CsrView& sparse) { return sparse.offsets.size() - 1; },
                               [](const auto& dense) { return dense.rows(); }},
                    examples);
}

std::size_t ColsOf(const Examples& examples) {
  return std::visit(
      Overloaded{[](const CsrView& sparse) { return sparse.cols; }, [](const auto& dense) { return dense.cols(); }},
      examples);
}

absl::Status CheckValues(const Examples& examples) {
  return std::visit(Overloaded{[](const CsrView& sparse) { return CheckSparse(sparse); },
                               [](const auto& dense) { return CheckDense(dense); }},
                    examples);
}

ingest::PoolFeatures CopyOf(const Examples& examples, std::size_t first, std::size_t count) {
  return std::visit(
      Overloaded{[&](const CsrView& sparse) { return ingest::PoolFeatures(CopySparse(sparse, first, count)); },
                 [&](const auto& dense) { return ingest::PoolFeatures(CopyDense(dense, first, count)); }},
      examples);
}

std::unique_ptr<kernel::Features> FeaturesInPlace(const Examples& examples) {
  if (const auto* dense = std::get_if<MatrixView<const double>>(&examples)) {
    return std::make_unique<DenseInPlace>(*dense);
  }
  if (const auto* sparse = std::get_if<CsrView>(&examples)) return std::make_unique<SparseInPlace>(*sparse);
  return nullptr;
}

}  // namespace fulcrum::python
