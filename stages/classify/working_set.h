// The scans of the SMO solver: which pair of multipliers to change next (second-order selection of Fan, Chen and
// Lin 2005), and the gradient update that goes with a change. They are where training spends its time, so they are
// written in lanes of SIMD registers; results do not depend on the width of a lane.
//
// Multipliers are kept signed, beta = y * alpha, so that neither labels nor Q = y y' K appear: the gradient is
// f_t = sum_s K(t, s) beta_s - y_t, "up" means that beta_t may grow, "low" that it may shrink. An example that may
// not move in a direction has a penalty of +infinity there, which spares a branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "stages/core/matrix.h"

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

// The kernel of one binary problem as the SMO solver reads it: contiguous rows over the examples it still looks at.
//
// The problem's kernel is a selection of rows and columns of a larger Gram matrix in memory. Where the selection is
// a run of neighbours, rows are read in place; otherwise, and after shrinking, a row is gathered when it is first
// asked for and kept: the solver comes back to the same few rows many times. Not thread-safe; the Gram matrix and
// the positions must outlive it.

class ActiveKernel {
 public:
  /// Example t of the problem is row and column positions[t] of `gram`. All examples are active at first.
  ActiveKernel(ConstMatrixView gram, std::span<const std::uint32_t> positions);

  std::size_t active_count() const { return active_.size(); }
  /// The example behind each active slot, ascending.
  std::span<const std::uint32_t> active() const { return active_; }
  double Diagonal(std::size_t example) const { return gram_(positions_[example], positions_[example]); }
  /// K of an active slot with all active slots. The next Row of another slot leaves it valid; Restrict and
  /// ActivateAll do not.
  const double* Row(std::size_t slot);

  /// Keeps the active slots of `kept`, ascending.
  void Restrict(std::span<const std::uint32_t> kept);
  void ActivateAll();

  /// out[t] += sum_s weights[s] * K(t, examples[s]) for every example t of the problem, active or not.
  void AccumulateProduct(std::span<const std::uint32_t> examples, std::span<const double> weights,
                         std::span<double> out) const;

 private:
  bool ReadsInPlace() const { return neighbours_ && active_.size() == positions_.size(); }
  const double* GramRow(std::size_t example) const { return gram_.row(positions_[example]).data(); }

  ConstMatrixView gram_;
  std::span<const std::uint32_t> positions_;
  bool neighbours_ = true;                   // positions_ is p, p+1, p+2, ...
  std::vector<std::uint32_t> active_;        // examples
  std::vector<std::vector<double>> copies_;  // by slot; empty until asked for
};

}  // namespace fulcrum::classify
