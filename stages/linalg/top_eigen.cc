#include "stages/linalg/top_eigen.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"
#include "stages/linalg/blas_library.h"

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
  std::vector<double> off_diagonal;
  // LAPACK's columns are our rows: the eigenvectors are rows.
  Matrix<double> vectors = Matrix<double>(values.size(), values.size());
  int failure = 0;

  void Run() {
    failure = LAPACKE_dstedc(LAPACK_COL_MAJOR, 'I', static_cast<int>(values.size()), values.data(), off_diagonal.data(),
                             vectors.data(), static_cast<int>(vectors.stride()));
  }
};

std::size_t VectorsFor(const TopEigenRequest& request, std::size_t rank, std::size_t size) {
  return std::min(std::max(rank, request.vectors), size);
}

Matrix<double> Products(ConstMatrixView matrix, ConstMatrixView vectors) {
  Matrix<double> products(vectors.rows(), matrix.rows());
  DenseSymmetricOperator(matrix).Apply(vectors, products.view());
  return products;
}

absl::Status CheckRows(std::size_t rows) {
  if (rows <= kMostDenseRows) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrFormat("a full eigendecomposition is limited to %d rows and this matrix has %d; use an engine that "
                      "computes the leading eigenvectors only (krylov, tiled or landmark)",
                      kMostDenseRows, rows));
}

}  // namespace

absl::StatusOr<FullEigen> DecomposeSymmetric(Matrix<double> matrix) {
  const std::size_t size = matrix.rows();
  FULCRUM_RETURN_IF_ERROR(CheckRows(size));
  FULCRUM_ASSIGN_OR_RETURN(Tridiagonal tridiagonal, ReduceToTridiagonal(std::move(matrix)));
  DivideAndConquer solved =
      RunAbandonably(size, DivideAndConquer{.values = tridiagonal.diagonal, .off_diagonal = tridiagonal.off_diagonal});
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
  // Before gigabytes are copied in vain.
  FULCRUM_RETURN_IF_ERROR(CheckRows(matrix.rows()));
  FULCRUM_ASSIGN_OR_RETURN(FullEigen full, DecomposeSymmetric(Matrix<double>::CopyOf(matrix)));
  double trace = 0;
  for (std::size_t i = 0; i < matrix.rows(); ++i) trace += matrix(i, i);
  std::vector<double> descending(full.values.rbegin(), full.values.rend());

  TopEigen top;
  top.engine = "dense";
  top.reason = "full decomposition as asked";
  top.rank = RankForShare(descending, trace, request.tau);
  top.values.assign(descending.begin(), descending.begin() + static_cast<std::ptrdiff_t>(top.rank));
  top.vectors = LastRowsReversed(full.vectors.view(), VectorsFor(request, top.rank, matrix.rows()));
  if (request.vectors > 0) top.multiplied = Products(matrix, top.vectors.view());
  double sum = 0;
  for (double value : top.values) sum += value;
  top.trace_share = trace > 0 ? sum / trace : 1;
  top.residual = LargestResidual(matrix, top);
  top.degenerate_cut =
      top.rank < descending.size() && descending[top.rank - 1] - descending[top.rank] <= 1e-10 * descending[0];
  return top;
}

double LargestResidual(ConstMatrixView matrix, const TopEigen& top) {
  Matrix<double> residuals = Products(matrix, top.vectors.view().Rows(0, top.rank));
  double largest = 0;
  for (std::size_t i = 0; i < top.rank; ++i) {
    Axpy(-top.values[i], top.vectors.row(i), residuals.row(i));
    largest = std::max(largest, Norm(residuals.row(i)));
  }
  return top.values[0] > 0 ? largest / top.values[0] : largest;
}

namespace {

/// All eigenvalues of a tridiagonal matrix.
struct AllValues {
  std::vector<double> values;  // the diagonal at first
  std::vector<double> off_diagonal;
  int failure = 0;

  void Run() { failure = LAPACKE_dsterf(static_cast<int>(values.size()), values.data(), off_diagonal.data()); }
};

/// The eigenvectors of the `count` largest eigenvalues of a tridiagonal matrix, one a row, the largest last.
struct LargestVectors {
  std::size_t count;
  std::vector<double> diagonal;
  std::vector<double> off_diagonal;
  Matrix<double> vectors = Matrix<double>(count, diagonal.size());
  int failure = 0;

  void Run() {
    const int size = static_cast<int>(diagonal.size()), wanted = static_cast<int>(count);
    std::vector<double> values(diagonal.size());
    std::vector<int> supports(2 * count);
    int found = 0, try_accurate = 1;
    failure = LAPACKE_dstemr(LAPACK_COL_MAJOR, 'V', 'I', size, diagonal.data(), off_diagonal.data(), 0, 0,
                             size - wanted + 1, size, &found, values.data(), vectors.data(),
                             static_cast<int>(vectors.stride()), wanted, supports.data(), &try_accurate);
  }
};

absl::StatusOr<std::vector<double>> DescendingValues(const Tridiagonal& tridiagonal) {
  const std::size_t size = tridiagonal.diagonal.size();
  AllValues all =
      RunAbandonably(size, AllValues{.values = tridiagonal.diagonal, .off_diagonal = tridiagonal.off_diagonal});
  FULCRUM_RETURN_IF_ERROR(CheckLapack("dsterf", size, all.failure));
  std::ranges::reverse(all.values);
  return std::move(all.values);
}

/// The eigenvectors of the `count` largest eigenvalues, one a row, the largest first.
absl::StatusOr<Matrix<double>> TopVectors(const Tridiagonal& tridiagonal, std::size_t count) {
  const std::size_t size = tridiagonal.diagonal.size();
  LargestVectors largest = RunAbandonably(
      size, LargestVectors{.count = count, .diagonal = tridiagonal.diagonal, .off_diagonal = tridiagonal.off_diagonal});
  FULCRUM_RETURN_IF_ERROR(CheckLapack("dstemr", size, largest.failure));
  FULCRUM_RETURN_IF_ERROR(ApplyReflectors(tridiagonal, largest.vectors.view()));
  Matrix<double> vectors(count, size);
  for (std::size_t i = 0; i < count; ++i) std::ranges::copy(largest.vectors.row(count - 1 - i), vectors.row(i).begin());
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
  absl::StatusOr<Matrix<double>> vectors = TopVectors(tridiagonal, VectorsFor(request, top.rank, matrix.rows()));
  // Where hundreds of eigenvalues are nearly equal dstemr may give up; divide and conquer does not.
  if (!vectors.ok()) return SolveTopEigenDense(matrix, request);
  top.vectors = *std::move(vectors);
  if (request.vectors > 0) top.multiplied = Products(matrix, top.vectors.view());
  double sum = 0;
  for (const double value : top.values) sum += value;
  top.trace_share = trace > 0 ? sum / trace : 1;
  top.residual = LargestResidual(matrix, top);
  top.degenerate_cut = top.rank < values.size() && values[top.rank - 1] - values[top.rank] <= 1e-10 * values[0];
  return top;
}

}  // namespace fulcrum::linalg
