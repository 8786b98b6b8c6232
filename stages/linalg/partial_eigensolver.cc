#include "stages/linalg/partial_eigensolver.h"

#include <algorithm>
#include <vector>

#include "stages/core/status_macros.h"
#include "stages/linalg/blas_library.h"
#include "stages/linalg/dense_eigensolver.h"
#include "stages/linalg/tridiagonal.h"

namespace fulcrum::linalg {
namespace {

absl::StatusOr<std::vector<double>> DescendingValues(const Tridiagonal& tridiagonal) {
  std::vector<double> values = tridiagonal.diagonal, beside = tridiagonal.beside;
  const int size = static_cast<int>(values.size());
  FULCRUM_RETURN_IF_ERROR(CheckLapack("dsterf", values.size(), LAPACKE_dsterf(size, values.data(), beside.data())));
  std::ranges::reverse(values);
  return values;
}

/// The eigenvectors of the `count` largest eigenvalues, one a row, the largest first.
absl::StatusOr<Matrix<double>> TopVectors(const Tridiagonal& tridiagonal, std::size_t count) {
  const std::size_t size = tridiagonal.diagonal.size();
  std::vector<double> diagonal = tridiagonal.diagonal, beside = tridiagonal.beside, values(size);
  std::vector<int> supports(2 * count);
  Matrix<double> ascending(count, size);
  int found = 0, try_accurate = 1;
  FULCRUM_RETURN_IF_ERROR(
      CheckLapack("dstemr", size,
                  LAPACKE_dstemr(LAPACK_COL_MAJOR, 'V', 'I', static_cast<int>(size), diagonal.data(), beside.data(), 0,
                                 0, static_cast<int>(size - count + 1), static_cast<int>(size), &found, values.data(),
                                 ascending.data(), static_cast<int>(ascending.stride()), static_cast<int>(count),
                                 supports.data(), &try_accurate)));
  FULCRUM_RETURN_IF_ERROR(ApplyReflectors(tridiagonal, ascending.view()));
  Matrix<double> vectors(count, size);
  for (std::size_t i = 0; i < count; ++i) std::ranges::copy(ascending.row(count - 1 - i), vectors.row(i).begin());
  return vectors;
}

}  // namespace

absl::StatusOr<TopEigen> SolveTopEigenPartial(ConstMatrixView matrix, const TopEigenRequest& request) {
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  FULCRUM_ASSIGN_OR_RETURN(const Tridiagonal tridiagonal, ReduceToTridiagonal(Matrix<double>::CopyOf(matrix)));
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> values, DescendingValues(tridiagonal));
  TopEigen top;
  top.engine = "dense";
  top.rank = RankForShare(values, trace, request.tau);
  top.values.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(top.rank));
  FULCRUM_ASSIGN_OR_RETURN(top.vectors, TopVectors(tridiagonal, top.rank));
  double sum = 0;
  for (const double value : top.values) sum += value;
  top.trace_share = trace > 0 ? sum / trace : 1;
  top.residual = LargestResidual(matrix, top);
  top.degenerate_cut = top.rank < values.size() && values[top.rank - 1] - values[top.rank] <= 1e-10 * values[0];
  return top;
}

}  // namespace fulcrum::linalg
