// Greedy maximisation of DBALEVS' set function (submodular_greedy.h) over a group whose kernel is in no memory:
// millions of candidates, thousands of picks.
//
// Gains only fall, so a candidate whose last known gain is below that of the best one needs no look. A shortlist of the
// most promising candidates, their features side by side, sees every pick at once; all others see the picks of a whole
// shortlist together, which turns their sums into matrix products. A shortlist lasts until its best gain is no longer
// above the largest that anyone outside it can have. So the batch is the greedy one, ties to the smaller row, up to
// float32 rounding of kernel values (about 1e-7 of a gain), and the cost is one float32 kernel value a candidate and
// pick, at the speed of SGEMM. Memory: about 20 bytes a candidate.
//
// The answer does not depend on the number of threads. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/submodular_greedy.h"

namespace fulcrum::select {

struct StreamedProblem {
  const kernel::Features* features = nullptr;
  kernel::KernelFunction kernel;
  std::span<const RowIndex> rows;        ///< behind each position; decides ties
  std::span<const double> scores;        ///< l, by position
  std::span<const std::size_t> labeled;  ///< A, as positions in any order
  std::size_t batch = 0;                 ///< b
  double alpha = 0;
  std::size_t shortlist = 16384;  ///< about how many candidates see every pick at once
};

/// GreedyBatch::evaluations counts the shortlists. InvalidArgument where a kernel value that was looked at lies outside
/// [0, 1], for which the function would not be monotone.
absl::StatusOr<GreedyBatch> MaximizeStreamed(const StreamedProblem& problem);

}  // namespace fulcrum::select
