// Greedy maximisation of the set function of DBALEVS over one class group. Paper, Definition "set scoring function",
// METHOD section 1, with each unordered pair counted once:
//   F(S) = sum_{i in S} (l_i + 1) - (alpha / M) sum_{pairs {i,j} in S} K(i, j),   M = |A| + b
//   gain(x) = l_x + 1 - (alpha / M) sum_{i in S} K(x, i)
// starting from S = A, the labeled examples. Monotone and submodular for l >= 0, alpha in [0, 1] and K in [0, 1], which
// the caller checks. l may be any score.
//
// The certificate: for any batch T and the greedy batch S, (1_T - 1_S)' K (1_T - 1_S) >= 0 if K is positive
// semi-definite, so F is bounded by its tangent at S,
//   F(A + T) <= F(A) + (c/2) 1_S' K 1_S + sum_{x in T} [gain_S(x) + (c/2) K(x, x)],   c = alpha / M,
// and the sum over T by its b largest terms. The bound is the smaller of this and F(A) + the b largest first gains,
// which only requires submodularity. (The usual F(S) + the b largest gains after S is not a bound here, because F is
// only monotone up to M examples.)
//
// Similarity sums are accumulated in a fixed order (the labeled by row, then the picks in order), so a gain is the same
// double whether it was computed lazily or not, for any order of the rows of the group and any number of threads.
// Functions are thread-safe.
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
  std::span<const RowIndex> rows;        ///< by position; ties go to the smaller row
  std::span<const double> scores;        ///< l, by position
  ConstMatrixView kernel;                ///< K, by position, both triangles
  std::span<const std::size_t> labeled;  ///< A, as positions in any order
  std::size_t batch = 0;                 ///< b
  double alpha = 0;
};

struct GreedyBatch {
  std::vector<std::size_t> positions;  ///< in order of selection
  std::vector<double> gains;           ///< never increasing
  double value = 0;                    ///< F(A and the batch)
  /// No batch of this size has a larger F, for a positive semi-definite K.
  double upper_bound = 0;
  std::size_t evaluations = 0;  ///< gains computed after the first round, by lazy evaluation
};

/// Returns the greedy batch: b positions, or all unlabeled ones if there are fewer.
GreedyBatch MaximizeGreedily(const GreedyProblem& problem);

// Candidates with stale upper bounds on their gains, for greedy maximisation of a submodular function.
//
// Gains only decrease as the batch grows, so an earlier gain is an upper bound of the current one. The best candidate
// is found by re-evaluating from the top until the top is up to date. The batch is the same as that of the naive greedy
// algorithm, including ties. Not thread-safe.

class LazyQueue {
 public:
  struct Candidate {
    double gain = 0;         ///< an upper bound, exact as of `step`
    RowIndex row = 0;        ///< ties go to the smaller row
    std::uint32_t item = 0;  ///< identifier of the caller
    std::uint32_t step = 0;  ///< picks made before the gain was computed
  };

  /// Smaller gain, or the same and a larger row.
  static bool WorseThan(const Candidate& a, const Candidate& b) { return GoesBefore(b.gain, b.row, a.gain, a.row); }

  explicit LazyQueue(std::vector<Candidate> candidates) : heap_(std::move(candidates)) {
    std::make_heap(heap_.begin(), heap_.end(), WorseThan);
  }

  bool empty() const { return heap_.empty(); }
  /// The remaining entries, in no particular order.
  const std::vector<Candidate>& candidates() const { return heap_; }
  /// The number of gains that were recomputed.
  std::size_t evaluations() const { return evaluations_; }

  /// Removes and returns the candidate with the largest gain after `step` picks. `evaluate(item)` computes the current
  /// gain, which must not exceed the known one. The queue must not be empty.
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

  /// Returns a candidate that was removed.
  void PutBack(const Candidate& candidate) {
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), WorseThan);
  }

  /// Removes and returns the candidate with the largest bound, up to date or not.
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
