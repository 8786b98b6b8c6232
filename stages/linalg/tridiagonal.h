// The reduction of a dense symmetric matrix to tridiagonal form, with which LAPACK's dense eigensolvers begin.
//
// Written as the loop over panels that LAPACK's own dsytrd is, out of the same two routines, so that it can be stopped:
// inside a StopScope it ends between panels, where one call for a matrix of ten thousand rows would not end for a
// minute. Pure functions, thread-safe.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"

namespace fulcrum::linalg {

/// Q T Q' = the matrix, T tridiagonal, Q a product of reflectors.
struct Tridiagonal {
  Matrix<double> reflectors;
  std::vector<double> diagonal;
  std::vector<double> beside;  ///< as long as the diagonal: some routines work in the last one
  std::vector<double> scales;
};

/// Consumes the matrix, which must be symmetric with both triangles filled: the reflectors take its place.
absl::StatusOr<Tridiagonal> ReduceToTridiagonal(Matrix<double> matrix);

/// Every row x of `vectors` becomes Q x: eigenvectors of T become those of the matrix. In parallel.
absl::Status ApplyReflectors(const Tridiagonal& tridiagonal, MutableMatrixView vectors);

/// An error that names the routine where `failure` is not zero.
absl::Status CheckLapack(const char* routine, std::size_t rows, int failure);

}  // namespace fulcrum::linalg
