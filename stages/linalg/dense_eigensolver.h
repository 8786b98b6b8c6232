// Full symmetric eigendecomposition by LAPACK: the steps of dsyevd, but one that a StopScope can end.
//
// The divide and conquer on the tridiagonal matrix (dstedc), a tenth of the whole, cannot be interrupted: a stop leaves
// it to itself. Pure functions, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::linalg {

struct FullEigen {
  std::vector<double> values;  ///< ascending, as LAPACK gives them
  Matrix<double> vectors;      ///< row i is the eigenvector of values[i]
};

/// Largest matrix that divide and conquer (dstedc) takes: its workspace of more than n^2 elements is counted with 32
/// bits.
inline constexpr std::size_t kMostDenseRows = 46340;

/// All eigenpairs. Consumes the matrix, both triangles of which must be filled: LAPACK works in place.
/// ResourceExhausted for more than kMostDenseRows rows.
absl::StatusOr<FullEigen> DecomposeSymmetric(Matrix<double> matrix);

/// Smallest rank whose leading values sum to at least tau of the trace. `values` descending.
/// Values below zero (rounding) count as zero.
std::size_t RankForShare(std::span<const double> descending_values, double trace, double tau);

/// The top of the spectrum from a full decomposition of a copy of `matrix`.
absl::StatusOr<TopEigen> SolveTopEigenDense(ConstMatrixView matrix, const TopEigenRequest& request);

/// Largest |A u - lambda u| over the pairs of `top`, relative to the largest eigenvalue.
double LargestResidual(ConstMatrixView matrix, const TopEigen& top);

// The top of the spectrum of a dense symmetric matrix by LAPACK, without the other eigenvectors.
//
// Reduces the matrix to tridiagonal form, takes all eigenvalues from there (cheap), and computes only the vectors of
// those that reach tau: two to three times as fast as a full decomposition if these are few. Thread-safe.

/// The same answer as SolveTopEigenDense, to rounding.
absl::StatusOr<TopEigen> SolveTopEigenPartial(ConstMatrixView matrix, const TopEigenRequest& request);

}  // namespace fulcrum::linalg
