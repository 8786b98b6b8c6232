#include "stages/linalg/symmetric_operator.h"

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::linalg {
namespace {

constexpr std::size_t kRowsPerTask = 256;

Matrix<double> TransposeOf(ConstMatrixView matrix) {
  Matrix<double> transposed(matrix.cols(), matrix.rows());
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    for (std::size_t j = 0; j < matrix.cols(); ++j) transposed(j, i) = matrix(i, j);
  }
  return transposed;
}

double TraceOf(ConstMatrixView matrix) {
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  return trace;
}

}  // namespace

DenseSymmetricOperator::DenseSymmetricOperator(ConstMatrixView matrix) : matrix_(matrix), trace_(TraceOf(matrix)) {}

void DenseSymmetricOperator::Apply(ConstMatrixView x, MutableMatrixView y) const {
  // y^T = x^T A: MKL multiplies a short, wide matrix up to twice as fast as a tall, narrow one.
  const Matrix<double> wide = TransposeOf(x);
  ParallelForBlocks(size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    Matrix<double> product(x.cols(), count);
    Gemm(Transpose::kNo, Transpose::kYes, 1.0, wide.view(), matrix_.Rows(first, count), 0.0, product.view());
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < x.cols(); ++j) y(first + i, j) = product(j, i);
    }
  });
}

}  // namespace fulcrum::linalg
