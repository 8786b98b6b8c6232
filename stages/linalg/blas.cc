#include "stages/linalg/blas.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "stages/core/parallel.h"
#include "stages/linalg/blas_library.h"
#include "stages/linalg/dense_eigensolver.h"

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

}  // namespace fulcrum::linalg

#if FULCRUM_BLAS_MKL

namespace fulcrum::linalg {

std::string LibraryName() {
  return "MKL";
}

std::string LibraryVersion() {
  MKLVersion version;
  mkl_get_version(&version);
  return std::to_string(version.MajorVersion) + "." + std::to_string(version.MinorVersion) + "." +
         std::to_string(version.UpdateVersion) + " (" + version.Processor + ")";
}

}  // namespace fulcrum::linalg

#else

extern "C" char* openblas_get_config(void);

namespace fulcrum::linalg {

std::string LibraryName() {
  return "OpenBLAS";
}

std::string LibraryVersion() {
  // "OpenBLAS 0.3.21 ...": what follows the name.
  const std::string configuration = openblas_get_config();
  const auto space = configuration.find(' ');
  return space == std::string::npos ? configuration : configuration.substr(space + 1);
}

}  // namespace fulcrum::linalg

#endif
