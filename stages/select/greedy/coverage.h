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
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

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
