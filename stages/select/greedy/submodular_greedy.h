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
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/select/strategy.h"

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

// Batches under a cost budget: the most of a submodular function for what may be spent.
//
// Lazy and plain greedy algorithms take the largest gain per cost, or the largest gain, of what still fits. Each alone
// can be arbitrarily bad: the first buys many cheap examples and then has nothing left for the one that matters, the
// second spends everything on one. The better of the two is worth at least (1 - 1/e) / 2 of the best batch that the
// budget allows, for a monotone submodular function (Leskovec et al., KDD 2007), as long as the number of examples does
// not end the batch before the budget does. The set function of DBALEVS is monotone up to twice the batch for alpha up
// to 1/2. Whatever the guarantee, the certificate bounds what the best batch could be worth: gains of other examples
// add up to no more than the fractional knapsack of them. Functions are thread-safe.

enum class BuyingOrder { kGainPerCost, kGain };
inline constexpr BuyingOrder kBuyingOrders[] = {BuyingOrder::kGainPerCost, BuyingOrder::kGain};

/// By what the next example is chosen.
double PriorityOf(BuyingOrder order, double gain, double cost);

/// What is left of a budget. Sums of costs that differ from it by rounding only are within it.
class Purse {
 public:
  explicit Purse(double budget) : left_(budget), tolerance_(1e-12 * budget) {}
  bool CanPay(double cost) const { return cost <= left_ + tolerance_; }
  void Pay(double cost) { left_ -= cost; }
  double left() const { return left_; }

 private:
  double left_;
  double tolerance_;
};

/// At least the sum of the gains of any `count` examples whose costs sum to no more than the budget: the smaller of the
/// largest gains and the fractional knapsack. gains[i] belongs to costs[i]; gains below 0 are left out.
double MostWorth(std::span<const double> gains, std::span<const double> costs, std::size_t count, double budget);

/// The set function of DBALEVS (submodular_greedy.h) under a budget. Kernel columns are asked for one by one, so the
/// kernel need not be in memory: a batch costs two columns per pick, one per order.
struct BudgetedProblem {
  std::span<const RowIndex> rows = {};        ///< by position; ties go to the smaller row
  std::span<const double> scores = {};        ///< l, by position
  std::span<const double> costs = {};         ///< by position
  std::span<const std::size_t> labeled = {};  ///< A, as positions in any order
  std::size_t batch = 0;                      ///< at most so many
  double budget = 0;
  double alpha = 0;
  /// Writes K(x, position) of all positions.
  std::function<absl::Status(std::size_t position, std::span<double> column)> column = {};
};

/// The better of both orders, with a bound on all batches that cost no more and are no larger. Empty if nothing fits.
absl::StatusOr<GreedyBatch> MaximizeWithinBudget(const BudgetedProblem& problem);

}  // namespace fulcrum::select
