// Sums of similarities that outlive a round: of a group's candidates to those given then, labeled or picked.
//
// The next round computes what is new in it: all similarities of the candidates that entered, and everyone's to those
// newly given or no longer so. Not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::select {

/// To whom, ascending, and the sums by row.
struct GivenSums {
  RowList given = {};
  std::vector<double> sums = {};
};

class SimilarityMemory {
 public:
  /// The sums of `rows` to all of `given`, both ascending, in the order of rows. What was remembered goes into them.
  /// InvalidArgument where a similarity lies outside [0, 1].
  absl::StatusOr<std::vector<double>> Recall(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                             std::span<const RowIndex> rows, std::span<const RowIndex> given);

  /// `rows` and those given ascending. Two sums a row: to the labeled alone, and with the picks, which may yet turn out
  /// to be of other classes; the next round takes what leaves it less to do.
  void Remember(std::span<const RowIndex> rows, GivenSums labeled, GivenSums with_picks);

  /// To how many of the given of the last Recall similarities were known; nothing a second time.
  std::size_t TakeCarried() { return std::exchange(carried_, 0); }

 private:
  RowList rows_;
  GivenSums labeled_, with_picks_;
  std::size_t carried_ = 0;
};

}  // namespace fulcrum::select
