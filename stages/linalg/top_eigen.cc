#include "stages/linalg/top_eigen.h"

#include "stages/core/parallel.h"
#include "stages/linalg/blas.h"

namespace fulcrum::linalg {

double RitzValue(const TopEigen& top, std::size_t index) {
  if (index < top.values.size() || top.multiplied.empty()) return top.values[index];
  return Dot(top.vectors.row(index), top.multiplied.row(index));
}

namespace {

constexpr std::size_t kRowsPerTask = 256;

double TraceOf(ConstMatrixView matrix) {
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  return trace;
}

}  // namespace

DenseSymmetricOperator::DenseSymmetricOperator(ConstMatrixView matrix) : matrix_(matrix), trace_(TraceOf(matrix)) {}

void DenseSymmetricOperator::Apply(ConstMatrixView x, MutableMatrixView y) const {
  ParallelForBlocks(size(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    Gemm(Transpose::kNo, Transpose::kYes, 1.0, x, matrix_.Rows(first, count), 0.0, y.Cols(first, count));
  });
}

}  // namespace fulcrum::linalg
