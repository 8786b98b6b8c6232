// The BLAS operations Fulcrum uses, on row-major views.
//
// Every call runs on the calling thread (MKL is linked sequentially); callers tile and schedule with
// oneTBB. All functions are thread-safe on disjoint outputs. Shapes are checked by assertions only:
// they are the caller's own, never a user's.
#pragma once

#include <span>

#include "stages/core/matrix.h"

namespace fulcrum::linalg {

enum class Transpose { kNo, kYes };

/// c = alpha * op(a) * op(b) + beta * c. With beta = 0, c may hold anything before.
void Gemm(Transpose transpose_a, Transpose transpose_b, double alpha, ConstMatrixView a, ConstMatrixView b, double beta,
          MutableMatrixView c);
void Gemm(Transpose transpose_a, Transpose transpose_b, float alpha, MatrixView<const float> a,
          MatrixView<const float> b, float beta, MatrixView<float> c);

/// y = alpha * op(a) * x + beta * y.
void Gemv(Transpose transpose_a, double alpha, ConstMatrixView a, std::span<const double> x, double beta,
          std::span<double> y);
void Gemv(Transpose transpose_a, float alpha, MatrixView<const float> a, std::span<const float> x, float beta,
          std::span<float> y);

double Dot(std::span<const double> x, std::span<const double> y);
/// y += alpha * x.
void Axpy(double alpha, std::span<const double> x, std::span<double> y);
double Norm(std::span<const double> x);

}  // namespace fulcrum::linalg
