// For every candidate of a group the sum of its similarities to what has been chosen, updated by many picks at a time.
//
// Not thread-safe for Add; concurrent reads are. Keeps references to features and rows.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::select {

class SimilaritySums {
 public:
  SimilaritySums(const kernel::KernelFunction& kernel, const kernel::Features& features, std::span<const RowIndex> rows)
      : kernel_(kernel), features_(features), rows_(rows), sums_(rows.size(), 0.0) {}

  /// Adds K(x, pick) of every pick to every candidate's sum, in blocks of candidates, in parallel. InvalidArgument
  /// where a value lies outside [0, 1].
  absl::Status Add(std::span<const RowIndex> picks);

  /// By position.
  std::span<const double> values() const { return sums_; }

 private:
  absl::Status AddSome(std::span<const RowIndex> picks);
  absl::Status OutsideUnitInterval(RowIndex row, RowIndex pick, double value) const;

  kernel::KernelFunction kernel_;
  const kernel::Features& features_;
  std::span<const RowIndex> rows_;
  std::vector<double> sums_;
};

}  // namespace fulcrum::select
