// Sequential minimal optimisation of one binary C-SVC on a kernel matrix in memory.
//
//   minimise 1/2 a' Q a - sum a,  0 <= a_t <= c_t,  sum y_t a_t = 0,  Q(s, t) = y_s y_t K(s, t)
//
// Working sets by second-order information, shrinking with reconstruction of the gradient, and a start from any
// earlier multipliers: they are made feasible first. An example with c_t = 0 takes no part but its kernel product
// is computed, which is how a fold is held out. Deterministic; pure functions, safe to call concurrently.
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
  std::size_t max_iterations = 0;  ///< 0: as LIBSVM, ten million or a hundred an example, whichever is more
};

/// Where to start; both empty is a cold start.
struct SmoStart {
  std::span<const double> alpha;
  /// sum_s K(t, s) y_s alpha_s where it is known for this very alpha; computed where it is not given.
  std::span<const double> products;
};

struct SmoSolution {
  std::vector<double> alpha;
  std::vector<double> products;  ///< sum_s K(t, s) y_s alpha_s; minus rho it is the decision value of example t
  double rho = 0;
  double objective = 0;
  std::size_t iterations = 0;
  bool converged = true;  ///< false when max_iterations came first
};

SmoSolution SolveSmo(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start = {});

// Turns arbitrary signed multipliers into a feasible start of the SMO solver.

/// Brings each beta_t = y_t alpha_t into [lower_t, upper_t] and their sum to zero, up to rounding. What is too much on
/// one side is taken from the free multipliers of that side first, in order, then from those at their bound: a
/// multiplier at its bound is most likely there for good. Every lower_t <= 0 <= upper_t, so this always succeeds.
void MakeFeasible(std::span<const double> lower, std::span<const double> upper, std::span<double> beta);

}  // namespace fulcrum::classify
