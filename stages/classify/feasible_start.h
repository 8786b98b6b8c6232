// Turns arbitrary signed multipliers into a feasible start of the SMO solver.
#pragma once

#include <span>

namespace fulcrum::classify {

/// Brings each beta_t = y_t alpha_t into [lower_t, upper_t] and their sum to zero, up to rounding. What is too much on
/// one side is taken from the free multipliers of that side first, in order, then from those at their bound: a
/// multiplier at its bound is most likely there for good. Every lower_t <= 0 <= upper_t, so this always succeeds.
void MakeFeasible(std::span<const double> lower, std::span<const double> upper, std::span<double> beta);

}  // namespace fulcrum::classify
