#include "stages/linalg/sparse_product.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <vector>

#include "stages/linalg/blas_library.h"

namespace fulcrum::linalg {
namespace {

void FillWithZeros(MutableMatrixView out) {
  for (std::size_t row = 0; row < out.rows(); ++row) std::fill_n(out.row(row).data(), out.cols(), 0.0);
}

/// Places for the columns of a matrix: their own numbers if the vocabulary is small compared to the elements, else only
/// the columns that some row has, so that work and memory depend on the elements alone.
class ColumnPlaces {
 public:
  explicit ColumnPlaces(const SparseRows& matrix) : size_(matrix.cols) {
    constexpr std::size_t kColumnsPerElement = 4;
    if (matrix.cols <= kColumnsPerElement * matrix.columns.size()) return;
    used_.assign(matrix.columns.begin(), matrix.columns.end());
    std::sort(used_.begin(), used_.end());
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    size_ = used_.size();
    all_ = false;
  }

  std::size_t size() const { return size_; }
  /// -1 if no row has the column.
  int PlaceOf(int column) const {
    if (all_) return column;
    const auto found = std::lower_bound(used_.begin(), used_.end(), column);
    return found == used_.end() || *found != column ? -1 : static_cast<int>(found - used_.begin());
  }

 private:
  std::size_t size_;
  bool all_ = true;
  std::vector<int> used_;
};

/// The transposed of some rows, by places.
struct TransposedRows {
  std::vector<int> offsets;
  std::vector<int> columns;
  std::vector<double> values;
};

TransposedRows Transpose(const SparseRows& matrix, const ColumnPlaces& places) {
  std::vector<int> place_of_element(matrix.columns.size());
  std::vector<int> next(places.size() + 1, 0);
  for (std::size_t i = 0; i < place_of_element.size(); ++i) {
    place_of_element[i] = places.PlaceOf(matrix.columns[i]);
    ++next[static_cast<std::size_t>(place_of_element[i]) + 1];
  }
  std::partial_sum(next.begin(), next.end(), next.begin());
  TransposedRows transposed{next, std::vector<int>(matrix.columns.size()), std::vector<double>(matrix.columns.size())};
  for (std::size_t row = 0; row < matrix.rows(); ++row) {
    for (int i = matrix.offsets[row]; i < matrix.offsets[row + 1]; ++i) {
      const auto from = static_cast<std::size_t>(i);
      const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(place_of_element[from])]++);
      transposed.columns[to] = static_cast<int>(row);
      transposed.values[to] = matrix.values[from];
    }
  }
  return transposed;
}

/// The rows' elements that have places, by them.
struct RestrictedRows {
  std::vector<int> offsets = {0};
  std::vector<int> columns;
  std::vector<double> values;
};

RestrictedRows Restrict(const SparseRows& matrix, const ColumnPlaces& places) {
  RestrictedRows restricted;
  restricted.columns.reserve(matrix.columns.size());
  restricted.values.reserve(matrix.columns.size());
  for (std::size_t row = 0; row < matrix.rows(); ++row) {
    for (int i = matrix.offsets[row]; i < matrix.offsets[row + 1]; ++i) {
      const auto element = static_cast<std::size_t>(i);
      const int place = places.PlaceOf(matrix.columns[element]);
      if (place < 0) continue;
      restricted.columns.push_back(place);
      restricted.values.push_back(matrix.values[element]);
    }
    restricted.offsets.push_back(static_cast<int>(restricted.columns.size()));
  }
  return restricted;
}

/// a * b, row by row: each element of a adds a multiple of a row of b.
void MultiplyPortable(const RestrictedRows& a, const TransposedRows& b, MutableMatrixView out) {
  FillWithZeros(out);
  for (std::size_t row = 0; row < out.rows(); ++row) {
    double* const sums = out.row(row).data();
    for (int i = a.offsets[row]; i < a.offsets[row + 1]; ++i) {
      const double factor = a.values[static_cast<std::size_t>(i)];
      const auto inner = static_cast<std::size_t>(a.columns[static_cast<std::size_t>(i)]);
      for (int j = b.offsets[inner]; j < b.offsets[inner + 1]; ++j) {
        sums[b.columns[static_cast<std::size_t>(j)]] += factor * b.values[static_cast<std::size_t>(j)];
      }
    }
  }
}

#if FULCRUM_BLAS_MKL
/// A handle of MKL's to arrays that it only borrows.
class MklMatrix {
 public:
  MklMatrix(std::size_t rows, std::size_t cols, std::vector<int>& offsets, std::vector<int>& columns,
            std::vector<double>& values) {
    made_ = mkl_sparse_d_create_csr(&handle_, SPARSE_INDEX_BASE_ZERO, static_cast<int>(rows), static_cast<int>(cols),
                                    offsets.data(), offsets.data() + 1, columns.data(),
                                    values.data()) == SPARSE_STATUS_SUCCESS;
  }
  ~MklMatrix() {
    if (made_) mkl_sparse_destroy(handle_);
  }
  MklMatrix(const MklMatrix&) = delete;
  MklMatrix& operator=(const MklMatrix&) = delete;

  bool made() const { return made_; }
  sparse_matrix_t handle() const { return handle_; }

 private:
  sparse_matrix_t handle_ = nullptr;
  bool made_ = false;
};

bool MultiplyByMkl(RestrictedRows& a, TransposedRows& b, std::size_t inner, MutableMatrixView out) {
  const MklMatrix left(out.rows(), inner, a.offsets, a.columns, a.values);
  const MklMatrix right(inner, out.cols(), b.offsets, b.columns, b.values);
  if (!left.made() || !right.made()) return false;
  return mkl_sparse_d_spmmd(SPARSE_OPERATION_NON_TRANSPOSE, left.handle(), right.handle(), SPARSE_LAYOUT_ROW_MAJOR,
                            out.data(), static_cast<int>(out.stride())) == SPARSE_STATUS_SUCCESS;
}
#else
bool MultiplyByMkl(RestrictedRows&, TransposedRows&, std::size_t, MutableMatrixView) {
  return false;
}
#endif

template <typename Multiply>
void MultiplyWith(const Multiply& multiply, const SparseRows& a, const SparseRows& b, MutableMatrixView out) {
  assert(a.cols == b.cols && a.rows() == out.rows() && b.rows() == out.cols());
  const ColumnPlaces places(b);
  RestrictedRows left = Restrict(a, places);
  if (left.columns.empty()) {
    FillWithZeros(out);
    return;
  }
  TransposedRows right = Transpose(b, places);
  multiply(left, right, places.size());
}

}  // namespace

void MultiplyByTransposed(const SparseRows& a, const SparseRows& b, MutableMatrixView out) {
  const auto multiply = [&](RestrictedRows& left, TransposedRows& right, std::size_t inner) {
    if (!MultiplyByMkl(left, right, inner, out)) MultiplyPortable(left, right, out);
  };
  MultiplyWith(multiply, a, b, out);
}

void MultiplyByTransposedPortable(const SparseRows& a, const SparseRows& b, MutableMatrixView out) {
  const auto multiply = [&](RestrictedRows& left, TransposedRows& right, std::size_t) {
    MultiplyPortable(left, right, out);
  };
  MultiplyWith(multiply, a, b, out);
}

}  // namespace fulcrum::linalg
