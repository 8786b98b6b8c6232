// Greedy maximisation of DBALEVS' set function (submodular_greedy.h) over a group whose kernel is in no memory:
// millions of candidates, thousands of picks.
//
// A shortlist of the most promising candidates, their features side by side, sees every pick at once and proposes the
// next hundreds of picks. All others see a proposal as a whole, which turns their sums into matrix products, and look
// at every step of it whether their own gain was above the pick's: the proposal stands up to the first step at which
// one was. The first pick always stands, since nobody outside had a gain above the shortlist's edge. So the batch is
// the greedy one, ties to the smaller row, up to float32 rounding of kernel values (about 1e-7 of a gain), and the cost
// is little more than one float32 kernel value a candidate and pick, at the speed of SGEMM. Memory: about 30 bytes a
// candidate.
//
// Scores need not be exact from the start: whoever is not settled yet counts with the most that it can have, and is
// settled before it gets onto a shortlist. The batch is the same as with exact scores for all.
//
// The answer does not depend on the number of threads. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/settled_scores.h"
#include "stages/select/similarity_memory.h"
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
  double slack = 0;               ///< scores may be off by so much; exact_scores tells the truth
  ExactScores exact_scores = {};  ///< must be there with a slack
  /// Of the round before, for the round after; with it `rows` must ascend. May be null.
  SimilarityMemory* similarities = nullptr;
};

/// GreedyBatch::evaluations counts the shortlists. InvalidArgument where a kernel value that was looked at lies outside
/// [0, 1], for which the function would not be monotone.
absl::StatusOr<GreedyBatch> MaximizeStreamed(const StreamedProblem& problem);

}  // namespace fulcrum::select
