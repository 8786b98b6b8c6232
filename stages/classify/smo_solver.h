// Sequential minimal optimisation of one binary C-SVC on a kernel matrix in memory.
//
//   minimise 1/2 a' Q a - sum a,  0 <= a_t <= c_t,  sum y_t a_t = 0,  Q(s, t) = y_s y_t K(s, t)
//
// Uses working sets by second-order information, shrinking with reconstruction of the gradient, and a start from any
// earlier multipliers, which are made feasible first. An example with c_t = 0 is excluded from the optimisation but its
// kernel product is computed, which is used to hold out a fold. Deterministic; pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/core/matrix.h"

namespace fulcrum::classify {

/// Views of the caller's memory, valid during the call.
struct SmoProblem {
  ConstMatrixView gram;
  std::span<const std::uint32_t> positions;  ///< example t is row and column positions[t] of gram
  std::span<const double> y;                 ///< +1 or -1
  std::span<const double> c;                 ///< upper bound of each multiplier, >= 0
};

struct SmoOptions {
  double tolerance = 1e-3;  ///< largest KKT violation
  bool shrinking = true;
  std::size_t max_iterations = 0;  ///< 0: as LIBSVM, ten million or a hundred per example, whichever is more
};

/// The start; a cold start if both are empty.
struct SmoStart {
  std::span<const double> alpha;
  /// sum_s K(t, s) y_s alpha_s for this alpha, if known; otherwise it is computed.
  std::span<const double> products;
};

struct SmoSolution {
  std::vector<double> alpha;
  std::vector<double> products;  ///< sum_s K(t, s) y_s alpha_s; minus rho it is the decision value of example t
  double rho = 0;
  double objective = 0;
  std::size_t iterations = 0;
  bool converged = true;  ///< false if max_iterations was reached
};

SmoSolution SolveSmo(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start = {});

// Converts arbitrary signed multipliers to a feasible start of the SMO solver.

/// Moves each beta_t = y_t alpha_t into [lower_t, upper_t] and their sum to zero, up to rounding. The excess of one
/// side is taken from the free multipliers of that side first, in order, then from those at their bound, because a
/// multiplier at its bound most likely stays there. Every lower_t <= 0 <= upper_t, so this always succeeds.
void MakeFeasible(std::span<const double> lower, std::span<const double> upper, std::span<double> beta);

}  // namespace fulcrum::classify
