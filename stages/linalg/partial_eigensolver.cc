#include "stages/linalg/partial_eigensolver.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/blas_library.h"
#include "stages/linalg/dense_eigensolver.h"

namespace fulcrum::linalg {
namespace {

absl::Status CheckLapack(const char* routine, std::size_t rows, int failure) {
  if (failure == 0) return absl::OkStatus();
  return absl::InternalError(
      absl::StrFormat("the dense eigensolver (%s) did not finish on a matrix of %d rows: code %d. The matrix may hold "
                      "values that are not finite.",
                      routine, rows, failure));
}

/// Q T Q' = matrix, T tridiagonal, Q a product of reflectors.
struct Tridiagonal {
  Matrix<double> reflectors;
  std::vector<double> diagonal;
  std::vector<double> beside;  // as long as the diagonal: dstemr works in the last one
  std::vector<double> scales;
};

absl::StatusOr<Tridiagonal> Reduce(ConstMatrixView matrix) {
  const std::size_t size = matrix.rows();
  Tridiagonal result{Matrix<double>::CopyOf(matrix), std::vector<double>(size), std::vector<double>(size),
                     std::vector<double>(size)};
  // LAPACK's columns are our rows; a symmetric matrix is its own transpose.
  FULCRUM_RETURN_IF_ERROR(
      CheckLapack("dsytrd", size,
                  LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'L', static_cast<int>(size), result.reflectors.data(),
                                 static_cast<int>(result.reflectors.stride()), result.diagonal.data(),
                                 result.beside.data(), result.scales.data())));
  return result;
}

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
  FULCRUM_RETURN_IF_ERROR(
      CheckLapack("dormtr", size,
                  LAPACKE_dormtr(LAPACK_COL_MAJOR, 'L', 'L', 'N', static_cast<int>(size), static_cast<int>(count),
                                 tridiagonal.reflectors.data(), static_cast<int>(tridiagonal.reflectors.stride()),
                                 tridiagonal.scales.data(), ascending.data(), static_cast<int>(ascending.stride()))));
  Matrix<double> vectors(count, size);
  for (std::size_t i = 0; i < count; ++i) std::ranges::copy(ascending.row(count - 1 - i), vectors.row(i).begin());
  return vectors;
}

}  // namespace

absl::StatusOr<TopEigen> SolveTopEigenPartial(ConstMatrixView matrix, const TopEigenRequest& request) {
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  FULCRUM_ASSIGN_OR_RETURN(const Tridiagonal tridiagonal, Reduce(matrix));
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
