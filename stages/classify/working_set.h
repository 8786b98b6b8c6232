// The scans of the SMO solver: which pair of multipliers to change next (second-order selection of Fan, Chen and
// Lin 2005), and the gradient update that goes with a change. They are where training spends its time, so they are
// written in lanes of SIMD registers; results do not depend on the width of a lane.
//
// Multipliers are kept signed, beta = y * alpha, so that neither labels nor Q = y y' K appear: the gradient is
// f_t = sum_s K(t, s) beta_s - y_t, "up" means that beta_t may grow, "low" that it may shrink. An example that may
// not move in a direction has a penalty of +infinity there, which spares a branch.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace fulcrum::classify {

inline constexpr std::size_t kNoExample = std::numeric_limits<std::size_t>::max();

/// The smallest f of those that may grow; the smaller index on ties.
struct FirstChoice {
  double value = std::numeric_limits<double>::infinity();
  std::size_t index = kNoExample;
};

/// The partner that lowers the objective most by the second-order estimate, and the largest f of those that may shrink.
struct SecondChoice {
  std::size_t index = kNoExample;
  double largest_low = -std::numeric_limits<double>::infinity();
};

/// K(i, i) + K(t, t) - 2 K(i, t) is never taken as smaller: duplicates and kernels that are not positive definite.
inline constexpr double kLeastCurvature = 1e-12;

FirstChoice SelectFirst(std::span<const double> f, std::span<const double> up_penalty);

/// f += step * (row_i - row_j), then SelectFirst, in one pass.
FirstChoice UpdateAndSelectFirst(std::span<double> f, std::span<const double> up_penalty, const double* row_i,
                                 const double* row_j, double step);

/// `row_i` and `diagonal_i` belong to the first choice, whose f is `first_value`.
SecondChoice SelectSecond(std::span<const double> f, std::span<const double> low_penalty,
                          std::span<const double> diagonal, const double* row_i, double diagonal_i, double first_value);

}  // namespace fulcrum::classify
