#include "stages/linalg/blas.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/linalg/blas_library.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::linalg {
namespace {

CBLAS_TRANSPOSE ToBlas(Transpose transpose) {
  return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

int ToInt(std::size_t value) {
  return static_cast<int>(value);
}

template <typename T>
std::size_t OpRows(Transpose transpose, MatrixView<const T> matrix) {
  return transpose == Transpose::kYes ? matrix.cols() : matrix.rows();
}

template <typename T>
std::size_t OpCols(Transpose transpose, MatrixView<const T> matrix) {
  return transpose == Transpose::kYes ? matrix.rows() : matrix.cols();
}

template <typename T, typename Function>
void GemmWith(const Function& function, Transpose transpose_a, Transpose transpose_b, T alpha, MatrixView<const T> a,
              MatrixView<const T> b, T beta, MatrixView<T> c) {
  const std::size_t inner = OpCols(transpose_a, a);
  assert(OpRows(transpose_a, a) == c.rows() && OpCols(transpose_b, b) == c.cols() && OpRows(transpose_b, b) == inner);
  if (c.empty()) return;
  function(CblasRowMajor, ToBlas(transpose_a), ToBlas(transpose_b), ToInt(c.rows()), ToInt(c.cols()), ToInt(inner),
           alpha, a.data(), ToInt(a.stride()), b.data(), ToInt(b.stride()), beta, c.data(), ToInt(c.stride()));
}

}  // namespace

void Gemm(Transpose transpose_a, Transpose transpose_b, double alpha, ConstMatrixView a, ConstMatrixView b, double beta,
          MutableMatrixView c) {
  GemmWith<double>(cblas_dgemm, transpose_a, transpose_b, alpha, a, b, beta, c);
}

void Gemm(Transpose transpose_a, Transpose transpose_b, float alpha, MatrixView<const float> a,
          MatrixView<const float> b, float beta, MatrixView<float> c) {
  GemmWith<float>(cblas_sgemm, transpose_a, transpose_b, alpha, a, b, beta, c);
}

void Gemv(Transpose transpose_a, double alpha, ConstMatrixView a, std::span<const double> x, double beta,
          std::span<double> y) {
  assert(OpCols(transpose_a, a) == x.size() && OpRows(transpose_a, a) == y.size());
  if (a.empty()) return;
  cblas_dgemv(CblasRowMajor, ToBlas(transpose_a), ToInt(a.rows()), ToInt(a.cols()), alpha, a.data(), ToInt(a.stride()),
              x.data(), 1, beta, y.data(), 1);
}

void Gemv(Transpose transpose_a, float alpha, MatrixView<const float> a, std::span<const float> x, float beta,
          std::span<float> y) {
  assert(OpCols(transpose_a, a) == x.size() && OpRows(transpose_a, a) == y.size());
  if (a.empty()) return;
  cblas_sgemv(CblasRowMajor, ToBlas(transpose_a), ToInt(a.rows()), ToInt(a.cols()), alpha, a.data(), ToInt(a.stride()),
              x.data(), 1, beta, y.data(), 1);
}

double Dot(std::span<const double> x, std::span<const double> y) {
  assert(x.size() == y.size());
  return cblas_ddot(ToInt(x.size()), x.data(), 1, y.data(), 1);
}

void Axpy(double alpha, std::span<const double> x, std::span<double> y) {
  assert(x.size() == y.size());
  cblas_daxpy(ToInt(x.size()), alpha, x.data(), 1, y.data(), 1);
}

double Norm(std::span<const double> x) {
  return cblas_dnrm2(ToInt(x.size()), x.data(), 1);
}

namespace {

constexpr std::size_t kSlice = 1024;
// A vector whose part outside the span of the others is smaller than this (relative, squared) is rounding noise.
constexpr double kDependent = 1e-12;
// Smallest to largest eigenvalue of a Gram matrix: above this, rotating by its inverse root leaves only rounding.
constexpr double kWellConditioned = 1e-3;
// Relative and squared: a vector that loses less than this to a basis is orthogonal to it after one pass.
constexpr double kHardlyRemoved = 0.25;
// Relative: what is left of a vector after its components in a basis were removed, if it has none outside.
constexpr double kRounding = 1e-14;
// Relative and squared: a unit vector that loses more than this in the second pass was rounding noise of the first.
constexpr double kMostlyRemoved = 0.5;

/// block -= (block basis^T) basis. Returns of each vector the part that was removed, squared and relative.
std::vector<double> RemoveComponents(ConstMatrixView basis, MutableMatrixView block) {
  std::vector<double> parts(block.rows(), 0.0);
  if (basis.rows() == 0) return parts;
  Matrix<double> coefficients(block.rows(), basis.rows());
  InnerProducts(block, basis, coefficients.view());
  for (std::size_t i = 0; i < block.rows(); ++i) {
    const double length = Norm(block.row(i)), removed = Norm(coefficients.row(i));
    if (length > 0) parts[i] = (removed / length) * (removed / length);
  }
  Combine(-1.0, coefficients.view(), basis, 1.0, block);
  return parts;
}

/// Deflation: sets to zero the vectors that consist of rounding errors alone once their components were removed.
/// Normalised, they would be arbitrary directions, not even orthogonal to the basis.
void ZeroNoise(double noise, std::span<const double> lengths_before, MutableMatrixView block) {
  for (std::size_t i = 0; i < block.rows(); ++i) {
    if (Norm(block.row(i)) <= std::max(noise, kRounding * lengths_before[i])) std::ranges::fill(block.row(i), 0.0);
  }
}

/// The rotation that makes a block orthonormal when multiplied from the left.
struct Orthonormalizing {
  Matrix<double> rotation;
  double condition = 0;  ///< smallest to largest eigenvalue of the Gram matrix: one for an orthonormal block
};

/// From the eigenvectors of the Gram matrix (SVQB, Stathopoulos and Wu 2002): all of it is matrix products, and the
/// eigenvalues tell which directions are noise and are left out.
Orthonormalizing FindOrthonormalizing(ConstMatrixView block) {
  const std::size_t width = block.rows();
  Matrix<double> gram(width, width);
  InnerProducts(block, block, gram.view());
  std::vector<double> scale(width);
  for (std::size_t i = 0; i < width; ++i) scale[i] = gram(i, i) > 0 ? 1 / std::sqrt(gram(i, i)) : 0;
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = 0; j < width; ++j) gram(i, j) *= scale[i] * scale[j];
  }
  const auto eigen = DecomposeSymmetric(std::move(gram));
  if (!eigen.ok()) return {};
  std::vector<std::size_t> kept;
  for (std::size_t i = width; i-- > 0;) {
    if (eigen->values[i] > kDependent * eigen->values.back()) kept.push_back(i);
  }
  Orthonormalizing result;
  result.condition = eigen->values.front() / eigen->values.back();
  Matrix<double>& rotation = result.rotation = Matrix<double>(kept.size(), width);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const double length = std::sqrt(eigen->values[kept[i]]);
    for (std::size_t j = 0; j < width; ++j) rotation(i, j) = scale[j] * eigen->vectors(kept[i], j) / length;
  }
  return result;
}

}  // namespace

void InnerProducts(ConstMatrixView a, ConstMatrixView b, MutableMatrixView out) {
  const std::size_t slices = (a.cols() + kSlice - 1) / kSlice;
  std::vector<Matrix<double>> partial(slices);
  ParallelForBlocks(a.cols(), kSlice, [&](std::size_t first, std::size_t count) {
    Matrix<double>& sum = partial[first / kSlice];
    sum = Matrix<double>(a.rows(), b.rows());
    Gemm(Transpose::kNo, Transpose::kYes, 1.0, a.Cols(first, count), b.Cols(first, count), 0.0, sum.view());
  });
  CopyMatrix<double>(partial[0].view(), out);
  for (std::size_t slice = 1; slice < slices; ++slice) {
    for (std::size_t i = 0; i < out.rows(); ++i) Axpy(1.0, partial[slice].row(i), out.row(i));
  }
}

void Combine(double alpha, ConstMatrixView coefficients, ConstMatrixView vectors, double beta,
             MutableMatrixView result) {
  ParallelForBlocks(vectors.cols(), kSlice, [&](std::size_t first, std::size_t count) {
    Gemm(Transpose::kNo, Transpose::kNo, alpha, coefficients, vectors.Cols(first, count), beta,
         result.Cols(first, count));
  });
}

void CombineInPlace(ConstMatrixView coefficients, MutableMatrixView block) {
  ParallelForBlocks(block.cols(), kSlice, [&](std::size_t first, std::size_t count) {
    Matrix<double> combined(coefficients.rows(), count);
    Gemm(Transpose::kNo, Transpose::kNo, 1.0, coefficients, block.Cols(first, count), 0.0, combined.view());
    CopyMatrix<double>(combined.view(), block.Block(0, first, combined.rows(), count));
  });
}

std::size_t OrthonormalizeAgainst(ConstMatrixView basis, MutableMatrixView block, double noise) {
  std::size_t kept = block.rows();
  std::vector<double> lengths(kept);
  for (std::size_t i = 0; i < kept; ++i) lengths[i] = Norm(block.row(i));
  // Twice is enough (Kahan, Parlett): the second pass removes what rounding left in the first, which is nothing where
  // hardly anything was removed or rotated.
  for (int pass = 0; pass < 2 && kept > 0; ++pass) {
    const std::vector<double> parts = RemoveComponents(basis, block.Rows(0, kept));
    if (pass == 0) ZeroNoise(noise, lengths, block);
    for (std::size_t i = 0; pass == 1 && i < kept; ++i) {
      if (parts[i] > kMostlyRemoved) std::ranges::fill(block.row(i), 0.0);
    }
    const double removed = *std::ranges::max_element(parts);
    const Orthonormalizing found = FindOrthonormalizing(block.Rows(0, kept));
    CombineInPlace(found.rotation.view(), block.Rows(0, kept));
    kept = found.rotation.rows();
    if (removed < kHardlyRemoved && found.condition > kWellConditioned) break;
  }
  return kept;
}

std::size_t OrthonormalizeTogether(ConstMatrixView block, ConstMatrixView companion, MutableMatrixView block_out,
                                   MutableMatrixView companion_out) {
  const Orthonormalizing first = FindOrthonormalizing(block);
  std::size_t kept = first.rotation.rows();
  Combine(1.0, first.rotation.view(), block, 0.0, block_out.Rows(0, kept));
  Combine(1.0, first.rotation.view(), companion, 0.0, companion_out.Rows(0, kept));
  if (kept == 0 || first.condition > kWellConditioned) return kept;
  const Orthonormalizing second = FindOrthonormalizing(block_out.Rows(0, kept));
  CombineInPlace(second.rotation.view(), block_out.Rows(0, kept));
  CombineInPlace(second.rotation.view(), companion_out.Rows(0, kept));
  return second.rotation.rows();
}

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
