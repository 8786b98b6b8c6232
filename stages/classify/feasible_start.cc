#include "stages/classify/feasible_start.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace fulcrum::classify {
namespace {

// A sum this near to zero is what a solver's own rounding leaves; a start that was feasible stays as it is.
constexpr double kRoundingShare = 1e-13;

/// Moves multipliers with the sign of `excess` towards zero until it is used up.
void Absorb(std::span<const double> lower, std::span<const double> upper, bool at_bound, std::span<double> beta,
            double& excess) {
  for (std::size_t t = 0; t < beta.size() && excess != 0; ++t) {
    if (beta[t] * excess <= 0 || (beta[t] == lower[t] || beta[t] == upper[t]) != at_bound) continue;
    const double taken = std::abs(beta[t]) < std::abs(excess) ? beta[t] : excess;
    beta[t] = taken == beta[t] ? 0 : beta[t] - taken;
    excess -= taken;
  }
}

}  // namespace

void MakeFeasible(std::span<const double> lower, std::span<const double> upper, std::span<double> beta) {
  double excess = 0, mass = 0;
  for (std::size_t t = 0; t < beta.size(); ++t) {
    beta[t] = std::clamp(beta[t], lower[t], upper[t]);
    excess += beta[t];
    mass += std::abs(beta[t]);
  }
  if (std::abs(excess) <= kRoundingShare * mass) return;
  Absorb(lower, upper, /*at_bound=*/false, beta, excess);
  Absorb(lower, upper, /*at_bound=*/true, beta, excess);
}

}  // namespace fulcrum::classify
