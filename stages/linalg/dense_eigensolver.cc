#include "stages/linalg/dense_eigensolver.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stages/core/status_macros.h"
#include "stages/linalg/abandonable.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/blas_library.h"
#include "stages/linalg/symmetric_operator.h"
#include "stages/linalg/tridiagonal.h"

namespace fulcrum::linalg {
namespace {

/// The last `count` rows, last first.
Matrix<double> LastRowsReversed(ConstMatrixView rows, std::size_t count) {
  Matrix<double> reversed(count, rows.cols());
  for (std::size_t i = 0; i < count; ++i) {
    std::copy_n(rows.row(rows.rows() - 1 - i).data(), rows.cols(), reversed.row(i).data());
  }
  return reversed;
}

/// All eigenpairs of a tridiagonal matrix.
struct DivideAndConquer {
  std::vector<double> values;  // the diagonal at first
  std::vector<double> beside;
  // LAPACK's columns are our rows: the eigenvectors come out as rows.
  Matrix<double> vectors = Matrix<double>(values.size(), values.size());
  int failure = 0;

  void Run() {
    failure = LAPACKE_dstedc(LAPACK_COL_MAJOR, 'I', static_cast<int>(values.size()), values.data(), beside.data(),
                             vectors.data(), static_cast<int>(vectors.stride()));
  }
};

}  // namespace

absl::StatusOr<FullEigen> DecomposeSymmetric(Matrix<double> matrix) {
  const std::size_t size = matrix.rows();
  FULCRUM_ASSIGN_OR_RETURN(Tridiagonal tridiagonal, ReduceToTridiagonal(std::move(matrix)));
  DivideAndConquer solved =
      RunAbandonably(size, DivideAndConquer{.values = tridiagonal.diagonal, .beside = tridiagonal.beside});
  FULCRUM_RETURN_IF_ERROR(CheckLapack("dstedc", size, solved.failure));
  FULCRUM_RETURN_IF_ERROR(ApplyReflectors(tridiagonal, solved.vectors.view()));
  return FullEigen{.values = std::move(solved.values), .vectors = std::move(solved.vectors)};
}

std::size_t RankForShare(std::span<const double> descending_values, double trace, double tau) {
  double sum = 0;
  for (std::size_t i = 0; i < descending_values.size(); ++i) {
    sum += std::max(descending_values[i], 0.0);
    // Rounding must not ask for one more eigenvalue than exact arithmetic would, or tau = 1 would
    // never be reached.
    if (sum >= tau * trace * (1 - 1e-12)) return i + 1;
  }
  return descending_values.size();
}

absl::StatusOr<TopEigen> SolveTopEigenDense(ConstMatrixView matrix, const TopEigenRequest& request) {
  FULCRUM_ASSIGN_OR_RETURN(FullEigen full, DecomposeSymmetric(Matrix<double>::CopyOf(matrix)));
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  std::vector<double> descending(full.values.rbegin(), full.values.rend());

  TopEigen top;
  top.engine = "dense";
  top.reason = "full decomposition as asked";
  top.rank = RankForShare(descending, trace, request.tau);
  top.values.assign(descending.begin(), descending.begin() + static_cast<std::ptrdiff_t>(top.rank));
  top.vectors = LastRowsReversed(full.vectors.view(), top.rank);
  double sum = 0;
  for (double value : top.values) sum += value;
  top.trace_share = trace > 0 ? sum / trace : 1;
  top.residual = LargestResidual(matrix, top);
  top.degenerate_cut =
      top.rank < descending.size() && descending[top.rank - 1] - descending[top.rank] <= 1e-10 * descending[0];
  return top;
}

double LargestResidual(ConstMatrixView matrix, const TopEigen& top) {
  Matrix<double> residuals(top.rank, matrix.rows());
  DenseSymmetricOperator(matrix).Apply(top.vectors.view().Rows(0, top.rank), residuals.view());
  double largest = 0;
  for (std::size_t i = 0; i < top.rank; ++i) {
    Axpy(-top.values[i], top.vectors.row(i), residuals.row(i));
    largest = std::max(largest, Norm(residuals.row(i)));
  }
  return top.values[0] > 0 ? largest / top.values[0] : largest;
}

}  // namespace fulcrum::linalg
