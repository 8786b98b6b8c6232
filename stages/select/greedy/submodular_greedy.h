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
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
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

// Greedy maximisation of weighted coverage (facility location) over any number of candidates:
//   gain(x) = sum_r w_r max(0, s(x, r) - m_r),   m_r = max_{z in S} s(z, r),   s(x, z) = exp(-d(x, z)^2 / width^2)
// r runs over references, a sample of the pool; S is what is labeled or picked. With equal weights this is MaxHerding
// (arXiv 2407.12212), with uncertainties as weights Uncertainty Herding (arXiv 2412.20644).
//
// With distances as they are, the rows of a class that is spread out around another one are closer to the rows in the
// middle than to each other, so that covering picks only the middle. Local distances divide by how far both rows are
// from the rows around them (Zelnik-Manor and Perona, 2004): a row in a sparse region speaks for a larger part of the
// space, and an outlier, which is far from everything, for itself.
//
// The function is submodular: a gain computed earlier is an upper bound. One pass in blocks of rows computes the gains
// of all candidates; afterwards only the few that could be the best are computed again (LazyQueue). Similarities are
// float32. Memory: 36 bytes per candidate, and the features of the references. The result does not depend on the number
// of threads. Thread-safe.

enum class Distance {
  kEuclidean,  ///< |x - z|
  kAngular,    ///< |x / |x| - z / |z||
  kLocal,      ///< |x - z| / sqrt(a(x) a(z)), with a from LocalScales
};

/// How far rows are from the rows around them: a(x) is the distance from x to the nearest eighth of the references, of
/// which not all are looked at if they are many. Keeps a reference to the features. Thread-safe.
class LocalScales {
 public:
  LocalScales(const kernel::Features& features, std::span<const RowIndex> references);

  /// Above 0, also for copies. The same whatever other rows are asked for.
  std::vector<double> Of(std::span<const RowIndex> rows) const;

 private:
  const kernel::Features& features_;
  RowList anchors_;
  double least_ = 0;
};

struct CoverageProblem {
  const kernel::Features* features = nullptr;
  Distance distance = Distance::kEuclidean;
  const LocalScales* scales = nullptr;   ///< of the references, if distances are local
  double width = 1;                      ///< above 0
  std::span<const RowIndex> references;  ///< r
  std::span<const double> weights;       ///< w_r, at least 0
  std::span<const double> nearest;       ///< by reference: squared distance to the nearest labeled row, or infinity
  std::span<const RowIndex> candidates;  ///< ascending
  std::size_t batch = 0;
  CostLimit cost = {};  ///< in one process only
  /// A pool that is spread over processes: `candidates` are those of this process, whose rows count from `first_row` of
  /// the pool, as those of the picks do. `features` are then `guests`, which have the references.
  const Communicator& peers = OneProcess();
  kernel::GuestFeatures* guests = nullptr;
  std::size_t first_row = 0;
};

/// The greedy batch with its gains, ties to the smaller row: `batch` rows, or all candidates if there are fewer. Once
/// nothing is left to gain, covering starts again from nothing, so that a batch larger than the sample stays spread
/// out. FailedPrecondition if a gain is NaN.
absl::StatusOr<std::vector<Pick>> MaximizeCoverage(const CoverageProblem& problem);

/// The same within a cost limit: the better batch of both orders (submodular_greedy.h), which ends when nothing is left
/// to gain. The certificate is about what the batch adds to the coverage.
absl::StatusOr<Selection> BuyCoverage(const CoverageProblem& problem);

/// A pool with what covers it so far, and the batch that covers it best: what the strategies of this kind share.
class PoolCover {
 public:
  /// Keeps a reference to the candidates.
  PoolCover(const Candidates& candidates, Distance distance);

  std::span<const RowIndex> labeled() const { return labeled_; }
  std::span<const RowIndex> references() const { return references_; }
  /// By reference: squared distance to the nearest labeled row, or infinity.
  std::span<const double> nearest() const { return nearest_; }
  /// Of the squared distances between the references.
  double MedianSquared() const;

  /// The batch that the candidates ask for; one weight per reference.
  absl::StatusOr<Selection> Select(double width, std::span<const double> weights) const;

 private:
  /// Null if distances are not local.
  const LocalScales* scales() const { return distance_ == Distance::kLocal ? &scales_ : nullptr; }

  const Candidates& candidates_;
  Distance distance_;
  RowList labeled_, references_;
  LocalScales scales_;
  std::vector<double> nearest_;
};

/// A uniform sample of the rows of a pool, ascending; all of them if they are few. The same in every round with the
/// same seed, unless so many rows are labeled or asked for that a larger sample is needed.
RowList SampleReferences(std::size_t pool_rows, std::size_t labeled_and_batch, std::uint64_t seed);

/// The median of the squared distances between the references, or between some of them if there are many; of local
/// distances if there are scales.
double MedianSquaredDistance(const kernel::Features& features, std::span<const RowIndex> references,
                             const LocalScales* scales = nullptr);

/// By row, the squared distance to the nearest of the centers; infinity if there are none. Local distances need scales.
/// Works in blocks, in parallel.
std::vector<double> NearestSquaredDistances(const kernel::Features& features, Distance distance,
                                            std::span<const RowIndex> rows, std::span<const RowIndex> centers,
                                            const LocalScales* scales = nullptr);

// The candidates of a group that is spread over processes: where those of this process are among them, and what has to
// be known about the others.
//
// Positions in the whole group count the candidates of rank 0 first, then those of rank 1, and so on, which is the
// order of their rows. In one process all calls return what they were given. Not thread-safe; every rank makes the same
// calls.

class GroupPeers {
 public:
  /// `own` candidates are those of this process.
  GroupPeers(const Communicator& peers, std::size_t own) : peers_(peers), own_(own) {
    const std::vector<std::size_t> sizes = ShareValue(peers, own);
    const auto mine = sizes.begin() + peers.rank();
    first_ = std::accumulate(sizes.begin(), mine, std::size_t{0});
    size_ = std::accumulate(mine, sizes.end(), first_);
  }

  const Communicator& communicator() const { return peers_; }
  bool is_alone() const { return peers_.is_alone(); }
  /// Candidates of all processes.
  std::size_t size() const { return size_; }
  /// The position of the first own candidate in the group.
  std::size_t first() const { return first_; }
  bool IsOwn(std::size_t position) const { return position >= first_ && position < first_ + own_; }

  std::size_t Sum(std::size_t value) const {
    if (is_alone()) return value;
    const std::vector<std::size_t> values = ShareValue(peers_, value);
    return std::accumulate(values.begin(), values.end(), std::size_t{0});
  }

  /// At least the `count` largest values of all processes, on every rank.
  std::vector<double> Largest(std::vector<double> values, std::size_t count) const {
    if (is_alone()) return values;
    if (count < values.size()) {
      std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(count), LargerFirst());
      values.resize(count);
    }
    return ShareValues(peers_, std::move(values));
  }

  struct Champion {
    double score = 0;
    std::size_t position = 0;  ///< in the group
    bool is_there = false;
    int rank = 0;  ///< of the process that has it
  };
  /// The best of all processes; ties go to the smaller position.
  Champion BestOf(const Champion& own) const {
    if (is_alone()) return own;
    Champion best;
    int rank = 0;
    for (const Champion& other : ShareValue(peers_, own)) {
      if (other.is_there && (!best.is_there || LargerFirst()(other.score, best.score))) {
        best = other;
        best.rank = rank;
      }
      ++rank;
    }
    return best;
  }

 private:
  const Communicator& peers_;
  std::size_t own_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace fulcrum::select
