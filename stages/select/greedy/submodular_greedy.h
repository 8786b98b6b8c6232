// Greedy maximisation of the set function of DBALEVS over one class group. Paper, Definition "set scoring
// function", METHOD section 1, each unordered pair counted once:
//   F(S) = sum_{i in S} (l_i + 1) - (alpha / M) sum_{pairs {i,j} in S} K(i, j),   M = |A| + b
//   gain(x) = l_x + 1 - (alpha / M) sum_{i in S} K(x, i)
// starting from S = A, the labeled examples. Monotone and submodular for l >= 0, alpha in [0, 1] and K in
// [0, 1]; the caller checks these. l may be any score.
//
// The certificate: for any batch T and the greedy batch S, a positive semi-definite K has
// (1_T - 1_S)' K (1_T - 1_S) >= 0, so F is bounded by its tangent at S,
//   F(A + T) <= F(A) + (c/2) 1_S' K 1_S + sum_{x in T} [gain_S(x) + (c/2) K(x, x)],   c = alpha / M,
// and the sum over T by its b largest terms. It is the smaller of this and F(A) + the b largest first gains,
// which needs submodularity alone. (The usual F(S) + the b largest gains after S is not a bound here: F is
// monotone up to M examples only.)
//
// Sums of similarities grow in a fixed order (the labeled by row, then the picks as they come), so a gain is the
// same double whether it was computed lazily or not, in whatever order the group lists its rows, and by however
// many threads. Functions are thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/select/score_order.h"

namespace fulcrum::select {

struct GreedyProblem {
  std::span<const RowIndex> rows;        ///< behind each position; decides ties
  std::span<const double> scores;        ///< l, by position
  ConstMatrixView kernel;                ///< K, by position, both triangles
  std::span<const std::size_t> labeled;  ///< A, as positions in any order
  std::size_t batch = 0;                 ///< b
  double alpha = 0;
};

struct GreedyBatch {
  std::vector<std::size_t> positions;  ///< in the order they were chosen
  std::vector<double> gains;           ///< never increasing
  double value = 0;                    ///< F(A and the batch)
  /// No batch of this size has a larger F, for a positive semi-definite K.
  double upper_bound = 0;
  std::size_t evaluations = 0;  ///< gains computed after the first round, by lazy evaluation
};

/// The greedy batch: b positions, or all the unlabeled where they are fewer.
GreedyBatch MaximizeGreedily(const GreedyProblem& problem);

// Candidates by stale upper bounds on their gains, for greedy maximisation of a submodular function.
//
// Gains only fall as the batch grows, so a gain computed earlier bounds the gain now: the best candidate is
// found by re-evaluating from the top until the one on top is up to date. The batch is the same as the naive
// greedy's, ties included. Not thread-safe.

class LazyQueue {
 public:
  struct Candidate {
    double gain = 0;         ///< an upper bound, exact as of `step`
    RowIndex row = 0;        ///< decides ties: the smaller first
    std::uint32_t item = 0;  ///< whatever the caller calls it
    std::uint32_t step = 0;  ///< picks made before the gain was computed
  };

  /// Smaller gain, or the same and a larger row.
  static bool WorseThan(const Candidate& a, const Candidate& b) { return GoesBefore(b.gain, b.row, a.gain, a.row); }

  explicit LazyQueue(std::vector<Candidate> candidates) : heap_(std::move(candidates)) {
    std::make_heap(heap_.begin(), heap_.end(), WorseThan);
  }

  bool empty() const { return heap_.empty(); }
  /// What is still in the queue, in no order.
  const std::vector<Candidate>& candidates() const { return heap_; }
  /// How often a gain was computed anew.
  std::size_t evaluations() const { return evaluations_; }

  /// Takes out the candidate with the largest gain after `step` picks. `evaluate(item)` computes a gain as of
  /// now, which must not exceed the one known. The queue must not be empty.
  template <typename Evaluate>
  Candidate PopBest(std::uint32_t step, const Evaluate& evaluate) {
    while (heap_.front().step != step) {
      std::pop_heap(heap_.begin(), heap_.end(), WorseThan);
      heap_.back().gain = evaluate(heap_.back().item);
      heap_.back().step = step;
      std::push_heap(heap_.begin(), heap_.end(), WorseThan);
      ++evaluations_;
    }
    return PopBound();
  }

  /// Takes out the candidate with the largest bound, up to date or not.
  Candidate PopBound() {
    std::pop_heap(heap_.begin(), heap_.end(), WorseThan);
    const Candidate best = heap_.back();
    heap_.pop_back();
    return best;
  }

 private:
  std::vector<Candidate> heap_;
  std::size_t evaluations_ = 0;
};

}  // namespace fulcrum::select
