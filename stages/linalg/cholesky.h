// Cholesky factorisation and the triangular solves that go with it, on row-major matrices.
//
// The solves run on the calling thread and are thread-safe on disjoint rows, so callers tile. The factorisation can be
// abandoned inside a StopScope (abandonable.h).
#pragma once

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"

namespace fulcrum::linalg {

/// L with L L^T = matrix, which must be symmetric and positive definite. Works in place: consumes the matrix and
/// leaves what is above the diagonal undefined.
absl::StatusOr<Matrix<double>> FactorCholesky(Matrix<double> matrix);

/// Every row x of `rows` becomes L^-1 x. Only the lower triangle of `lower` is read.
void SolveLowerForRows(ConstMatrixView lower, MutableMatrixView rows);

/// Every row x of `rows` becomes L^-T x.
void SolveLowerTransposedForRows(ConstMatrixView lower, MutableMatrixView rows);

}  // namespace fulcrum::linalg
