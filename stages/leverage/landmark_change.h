// How much scores can have moved since they were computed, without computing them again.
//
// In the landmarks' span l(x) = z(x)' M z(x) with M = sum of w_j w_j' / theta_j and |z(x)|^2 <= K(x, x), so no score
// moves by more than |M - M_before| K(x, x), a number that the two small matrices tell. Pure functions, thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

/// The w_j / sqrt(theta_j) of a solution, one a row: M is the sum of their outer products.
Matrix<double> ScaledVectors(const linalg::TopEigen& eigen);

/// |M - M_before|, the largest eigenvalue by magnitude.
absl::StatusOr<double> LargestChange(ConstMatrixView now, ConstMatrixView before);

}  // namespace fulcrum::leverage
