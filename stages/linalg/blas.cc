#include "stages/linalg/blas.h"

#include <cassert>

#include "stages/linalg/blas_library.h"

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
void GemmWith(Function function, Transpose transpose_a, Transpose transpose_b, T alpha, MatrixView<const T> a,
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

}  // namespace fulcrum::linalg
