// The kernel of one binary problem as the SMO solver reads it: contiguous rows over the examples it still looks at.
//
// The problem's kernel is a selection of rows and columns of a larger Gram matrix in memory. Where the selection is
// a run of neighbours, rows are read in place; otherwise, and after shrinking, a row is gathered when it is first
// asked for and kept: the solver comes back to the same few rows many times. Not thread-safe; the Gram matrix and
// the positions must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/core/matrix.h"

namespace fulcrum::classify {

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
