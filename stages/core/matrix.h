// Dense row-major matrices and views.
//
// Matrix<T> owns its memory: 64-byte aligned, every row starting on a cache line, not initialised. MatrixView<T> is a
// pointer, a shape and a row stride; it does not own memory. A view of const elements (ConstMatrixView) converts from a
// mutable one. Views are as thread-safe as the memory they refer to.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace fulcrum {

/// A rectangle of elements in memory, rows `stride` elements apart.
template <typename T>
class MatrixView {
 public:
  MatrixView() = default;
  MatrixView(T* data, std::size_t rows, std::size_t cols, std::size_t stride)
      : data_(data), rows_(rows), cols_(cols), stride_(stride) {
    assert(stride >= cols);
  }
  MatrixView(T* data, std::size_t rows, std::size_t cols) : MatrixView(data, rows, cols, cols) {}

  /// A view of mutable elements converts to a view of const elements.
  template <typename U>
  requires(std::is_same_v<const U, T>)
      MatrixView(MatrixView<U> other)  // NOLINT(google-explicit-constructor): like span<const T>
      : MatrixView(other.data(), other.rows(), other.cols(), other.stride()) {}

  T* data() const { return data_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t stride() const { return stride_; }
  bool empty() const { return rows_ == 0 || cols_ == 0; }

  T& operator()(std::size_t row, std::size_t col) const {
    assert(row < rows_ && col < cols_);
    return data_[row * stride_ + col];
  }
  std::span<T> row(std::size_t index) const {
    assert(index < rows_);
    return {data_ + index * stride_, cols_};
  }
  /// Returns the rectangle of `row_count` x `col_count` elements that starts at (row, col).
  MatrixView Block(std::size_t row, std::size_t col, std::size_t row_count, std::size_t col_count) const {
    assert(row + row_count <= rows_ && col + col_count <= cols_);
    return {data_ + row * stride_ + col, row_count, col_count, stride_};
  }
  MatrixView Rows(std::size_t first, std::size_t count) const { return Block(first, 0, count, cols_); }
  MatrixView Cols(std::size_t first, std::size_t count) const { return Block(0, first, rows_, count); }

 private:
  T* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::size_t stride_ = 0;
};

using ConstMatrixView = MatrixView<const double>;
using MutableMatrixView = MatrixView<double>;

/// Copies the elements; the shapes must be the same.
template <typename T>
void CopyMatrix(MatrixView<const T> from, MatrixView<T> to) {
  assert(from.rows() == to.rows() && from.cols() == to.cols());
  for (std::size_t row = 0; row < from.rows(); ++row) {
    std::copy_n(from.row(row).data(), from.cols(), to.row(row).data());
  }
}

/// An owned matrix. Movable, not copyable: a kernel matrix is too large to copy by accident (see Clone).
template <typename T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t cols)
      : rows_(rows), cols_(cols), stride_(PaddedStride(cols)), data_(Allocate(rows * stride_)) {}

  /// With memory for more rows behind those that it has, which costs nothing until it is used.
  static Matrix WithCapacity(std::size_t rows, std::size_t cols, std::size_t capacity) {
    Matrix matrix(std::max(rows, capacity), cols);
    matrix.capacity_ = std::exchange(matrix.rows_, rows);
    return matrix;
  }
  static Matrix Zero(std::size_t rows, std::size_t cols) {
    Matrix matrix(rows, cols);
    std::fill_n(matrix.data(), rows * matrix.stride(), T{});
    return matrix;
  }
  static Matrix CopyOf(MatrixView<const T> source) {
    Matrix matrix(source.rows(), source.cols());
    CopyMatrix<T>(source, matrix.view());
    return matrix;
  }
  Matrix Clone() const { return CopyOf(view()); }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t stride() const { return stride_; }
  bool empty() const { return rows_ == 0 || cols_ == 0; }
  /// Rows that there is memory for, those that it has included.
  std::size_t capacity() const { return std::max(rows_, capacity_); }
  /// All of them.
  MatrixView<T> whole() { return {data_.get(), capacity(), cols_, stride_}; }

  MatrixView<T> view() { return {data_.get(), rows_, cols_, stride_}; }
  MatrixView<const T> view() const { return {data_.get(), rows_, cols_, stride_}; }
  T& operator()(std::size_t row, std::size_t col) { return view()(row, col); }
  const T& operator()(std::size_t row, std::size_t col) const { return view()(row, col); }
  std::span<T> row(std::size_t index) { return view().row(index); }
  std::span<const T> row(std::size_t index) const { return view().row(index); }

 private:
  static constexpr std::size_t kAlignment = 64;

  struct AlignedDelete {
    void operator()(T* memory) const { ::operator delete[](memory, std::align_val_t{kAlignment}); }
  };

  // With a stride that is a multiple of the page size, all rows compete for the same cache sets; one more line avoids
  // it.
  static std::size_t PaddedStride(std::size_t cols) {
    constexpr std::size_t kLine = kAlignment / sizeof(T);
    constexpr std::size_t kPage = 4096 / sizeof(T);
    const std::size_t stride = (cols + kLine - 1) / kLine * kLine;
    return stride >= kPage && stride % kPage == 0 ? stride + kLine : stride;
  }
  static T* Allocate(std::size_t count) {
    if (count == 0) return nullptr;
    return static_cast<T*>(::operator new[](count * sizeof(T), std::align_val_t{kAlignment}));
  }

  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::size_t stride_ = 0;
  std::size_t capacity_ = 0;
  std::unique_ptr<T[], AlignedDelete> data_;
};

// Sparse matrices by rows (CSR), for example word counts.
//
// A plain value. As thread-safe as a vector.

struct SparseMatrix {
  std::size_t cols = 0;
  std::vector<std::size_t> offsets = {0};  ///< start of each row; rows + 1 entries
  std::vector<std::int32_t> columns;       ///< ascending within a row
  std::vector<double> values;              ///< parallel to `columns`

  std::size_t rows() const { return offsets.size() - 1; }
  std::size_t nonzeros() const { return values.size(); }
  std::span<const std::int32_t> ColumnsOf(std::size_t row) const {
    return {columns.data() + offsets[row], offsets[row + 1] - offsets[row]};
  }
  std::span<const double> ValuesOf(std::size_t row) const {
    return {values.data() + offsets[row], offsets[row + 1] - offsets[row]};
  }
  std::span<double> ValuesOf(std::size_t row) {
    return {values.data() + offsets[row], offsets[row + 1] - offsets[row]};
  }
};

/// Converts to a dense matrix.
inline Matrix<double> ToDense(const SparseMatrix& sparse) {
  Matrix<double> dense = Matrix<double>::Zero(sparse.rows(), sparse.cols);
  for (std::size_t row = 0; row < sparse.rows(); ++row) {
    const auto columns = sparse.ColumnsOf(row);
    const auto values = sparse.ValuesOf(row);
    for (std::size_t i = 0; i < columns.size(); ++i) dense(row, static_cast<std::size_t>(columns[i])) = values[i];
  }
  return dense;
}

}  // namespace fulcrum
