#include "stages/linalg/cholesky.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_format.h"
#include "stages/linalg/abandonable.h"
#include "stages/linalg/blas_library.h"

namespace fulcrum::linalg {
namespace {

void SolveForRows(CBLAS_TRANSPOSE transpose, ConstMatrixView lower, MutableMatrixView rows) {
  if (rows.empty()) return;
  assert(lower.rows() == lower.cols() && rows.cols() == lower.rows());
  cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, transpose, CblasNonUnit, static_cast<int>(rows.rows()),
              static_cast<int>(rows.cols()), 1.0, lower.data(), static_cast<int>(lower.stride()), rows.data(),
              static_cast<int>(rows.stride()));
}

struct Factorisation {
  Matrix<double> matrix;
  int failure = 0;

  // LAPACK's upper triangle by columns is our lower triangle by rows, so nothing is transposed.
  void Run() {
    failure = LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', static_cast<int>(matrix.rows()), matrix.data(),
                             static_cast<int>(matrix.stride()));
  }
};

}  // namespace

absl::StatusOr<Matrix<double>> FactorCholesky(Matrix<double> matrix) {
  assert(matrix.rows() == matrix.cols());
  if (matrix.empty()) return matrix;
  const std::size_t size = matrix.rows();
  Factorisation done = RunAbandonably(size, Factorisation{.matrix = std::move(matrix)});
  if (done.failure != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a matrix of %d rows is not positive definite (Cholesky stopped at row %d): its kernel is not one, or its "
        "values are not finite",
        size, done.failure));
  }
  return std::move(done.matrix);
}

// A row x becomes L^-1 x when the matrix of rows is multiplied by L^-T from the right.
void SolveLowerForRows(ConstMatrixView lower, MutableMatrixView rows) {
  SolveForRows(CblasTrans, lower, rows);
}

void SolveLowerTransposedForRows(ConstMatrixView lower, MutableMatrixView rows) {
  SolveForRows(CblasNoTrans, lower, rows);
}

}  // namespace fulcrum::linalg
