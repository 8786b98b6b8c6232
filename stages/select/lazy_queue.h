// Candidates by stale upper bounds on their gains, for greedy maximisation of a submodular function.
//
// Gains only fall as the batch grows, so a gain computed earlier bounds the gain now: the best candidate is
// found by re-evaluating from the top until the one on top is up to date. The batch is the same as the naive
// greedy's, ties included. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "stages/core/rows.h"

namespace fulcrum::select {

class LazyQueue {
 public:
  struct Candidate {
    double gain = 0;         ///< an upper bound, exact as of `step`
    RowIndex row = 0;        ///< decides ties: the smaller first
    std::uint32_t item = 0;  ///< whatever the caller calls it
    std::uint32_t step = 0;  ///< picks made before the gain was computed
  };

  /// Smaller gain, or the same and a larger row.
  static bool WorseThan(const Candidate& a, const Candidate& b) {
    return a.gain != b.gain ? a.gain < b.gain : a.row > b.row;
  }

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
