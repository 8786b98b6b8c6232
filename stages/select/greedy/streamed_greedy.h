// Greedy maximisation of the set function of DBALEVS (submodular_greedy.h) over a group whose kernel is not in memory:
// millions of candidates, thousands of picks.
//
// A shortlist of the most promising candidates, with contiguous features, is updated after every pick and proposes the
// next hundreds of picks. All other candidates are updated for a whole proposal, which turns their sums into matrix
// products. They check for every step whether their own gain was above that of the pick; the proposal is accepted up to
// the first such step. The first pick is always accepted, because no candidate outside had a gain above the threshold
// of the shortlist. The batch is therefore the greedy batch, ties to the smaller row, up to float32 rounding of kernel
// values (about 1e-7 of a gain). The cost is little more than one float32 kernel value per candidate and pick, at the
// speed of SGEMM. Memory: about 30 bytes per candidate.
//
// Scores need not be exact at the start: a candidate with an inexact score counts with its upper bound, and its exact
// score is computed before it enters a shortlist. The batch is the same as with exact scores for all candidates.
//
// A group may be spread over processes. Each updates its own candidates; the shortlists of all of them are merged at
// the root, which proposes, and a proposal is accepted up to the first pick that a candidate of any process would have
// beaten. The batch does not depend on the number of processes.
//
// The result does not depend on the number of threads. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/select/greedy/submodular_greedy.h"

namespace fulcrum::select {

// For every candidate of a group the sum of its similarities to the chosen rows, updated by many picks at a time.
//
// Not thread-safe for Add; concurrent reads are. Keeps references to features and rows.

/// Candidates that were not considered while a sequence of picks was made, and what they are compared with.
struct Rivals {
  std::span<const std::uint8_t> present;  ///< by position: this one could have been picked instead
  std::span<const double> scores;         ///< l, by position
  double factor = 0;                      ///< alpha / M, above 0
  std::span<const double> gains;          ///< of the picks, each as it was picked
};

class SimilaritySums {
 public:
  SimilaritySums(const kernel::KernelFunction& kernel, const kernel::Features& features, std::span<const RowIndex> rows)
      : kernel_(kernel), features_(features), rows_(rows), sums_(rows.size(), 0.0) {}

  /// Sets the sums so far, by position.
  void StartFrom(std::vector<double> sums) { sums_ = std::move(sums); }

  /// Adds K(x, pick) of every pick to every candidate's sum, in blocks of candidates, in parallel. InvalidArgument
  /// if a value lies outside [0, 1].
  absl::Status Add(std::span<const RowIndex> picks);

  /// Adds picks up to the first one (but not the very first) that a rival would have beaten, whose gain was the larger
  /// at that moment. Returns how many were added. `peers` have the other candidates of the group.
  absl::StatusOr<std::size_t> AddUnbeaten(std::span<const RowIndex> picks, const Rivals& rivals,
                                          const Communicator& peers = OneProcess());

  /// By position.
  std::span<const double> values() const { return sums_; }
  /// The same, to be kept when this ends.
  std::vector<double> Release() { return std::move(sums_); }

  /// A tile of so many picks and a block of candidates is half a megabyte: it is summed before it leaves the cache.
  static constexpr std::size_t kPicksAtOnce = kernel::KernelTiles<float>::kRows;

 private:
  /// Writes the sums with the picks to after_; returns how many picks no rival would have beaten, all without rivals.
  absl::StatusOr<std::size_t> Sum(std::span<const RowIndex> picks, const Rivals* rivals);
  absl::Status OutsideUnitInterval(RowIndex row, RowIndex pick, double value) const;

  kernel::KernelFunction kernel_;
  const kernel::Features& features_;
  std::span<const RowIndex> rows_;
  std::vector<double> sums_;
  std::vector<double> after_;  // memory that Sum writes to, kept between calls
};

// Sums of similarities that are kept between rounds: of a group's candidates to the rows given then, labeled or picked.
//
// The next round computes only the changes: all similarities of candidates that entered, and those of all candidates to
// rows that were added to or removed from the given ones. Not thread-safe.

/// The given rows, ascending, and the sums by row.
struct GivenSums {
  RowList given = {};
  std::vector<double> sums = {};
};

class SimilarityMemory {
 public:
  /// The sums of `rows` to all of `given`, both ascending, in the order of rows. What was remembered goes into them.
  /// InvalidArgument if a similarity lies outside [0, 1].
  absl::StatusOr<std::vector<double>> Recall(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                             std::span<const RowIndex> rows, std::span<const RowIndex> given);

  /// `rows` and the given ones are ascending. Two sums per row: to the labeled rows alone, and with the picks, which
  /// may get labels of other classes; the next round uses the one that needs less work.
  void Remember(std::span<const RowIndex> rows, GivenSums labeled, GivenSums with_picks);

  /// The number of given rows of the last Recall whose similarities were known; zero in a second call.
  std::size_t TakeCarried() { return std::exchange(carried_, 0); }

 private:
  RowList rows_;
  GivenSums labeled_, with_picks_;
  std::size_t carried_ = 0;
};

// Scores of the candidates of a group, of which most are known only up to a slack: the upper bound of each, and the
// exact score of those that were requested.
//
// Settle is not thread-safe; concurrent reads are.

/// Returns the exact l of the candidates at the given positions.
using ExactScores = std::function<std::vector<double>(std::span<const std::size_t> positions)>;

class SettledScores {
 public:
  /// Without a slack all scores are exact, and `exact` is not needed.
  SettledScores(std::span<const double> scores, double slack, ExactScores exact);

  /// By position.
  std::span<const double> AtMost() const { return at_most_; }
  double AtMost(std::size_t position) const { return at_most_[position]; }

  /// Computes the exact scores of these candidates, or of all candidates once so many were requested that it is no more
  /// work. Returns false if all were already exact.
  bool Settle(std::span<const std::size_t> positions);

 private:
  void Ask(std::span<const std::size_t> positions);

  std::vector<double> at_most_;
  ExactScores exact_;
  std::vector<std::uint8_t> settled_;  // by position; empty if all are
  std::size_t settled_count_ = 0;
};

struct StreamedProblem {
  const kernel::Features* features = nullptr;
  kernel::KernelFunction kernel;
  std::span<const RowIndex> rows;        ///< by position; ties go to the smaller row
  std::span<const double> scores;        ///< l, by position
  std::span<const std::size_t> labeled;  ///< A, as positions in any order
  std::size_t batch = 0;                 ///< b
  double alpha = 0;
  std::size_t shortlist = 16384;  ///< about how many candidates are updated after every pick
  double slack = 0;               ///< maximum error of the scores; exact_scores returns exact ones
  ExactScores exact_scores = {};  ///< required with a slack
  /// State carried from the previous round to the next; with it `rows` must ascend. May be null.
  SimilarityMemory* similarities = nullptr;
  /// A group that is spread over processes: `rows` (ascending), `scores` and `labeled` are those of this process,
  /// scores are exact, and positions of the result are in the whole group (GroupPeers). `features` are then
  /// `guests`, which have the labeled rows of the whole group, `given`, and are given the picks.
  const Communicator& peers = OneProcess();
  kernel::GuestFeatures* guests = nullptr;
  std::span<const RowIndex> given = {};
};

/// GreedyBatch::evaluations counts the shortlists. Returns InvalidArgument if a computed kernel value is outside [0,
/// 1], because the function would not be monotone.
absl::StatusOr<GreedyBatch> MaximizeStreamed(const StreamedProblem& problem);

// The most promising candidates of a group: they are updated after every pick, the others later.
//
// Their features are contiguous, so that a pick costs one matrix-vector product over them. Not thread-safe; its loops
// run in parallel internally. Keeps a reference to the features.

class Shortlist {
 public:
  struct Member {
    std::size_t position = 0;  ///< in the group
    RowIndex row = 0;          ///< ties go to the smaller row
    double score = 0;          ///< l
    double similarity = 0;     ///< summed over the selected rows
  };
  struct Best {
    std::size_t index = 0;  ///< in the shortlist
    double gain = 0;
  };

  /// `factor` is alpha / M of the set function.
  Shortlist(const kernel::KernelFunction& kernel, const kernel::Features& features, std::vector<Member> members,
            double factor);

  /// Returns the unselected member with the largest gain; nothing if all are selected.
  const std::optional<Best>& best() const { return best_; }
  const Member& member(std::size_t index) const { return members_[index]; }

  /// Selects the best member and updates all others.
  void Choose();

 private:
  double GainOf(const Member& member) const;
  bool IsBetter(const Best& a, const Best& b) const;
  /// Returns the best of some members, after `chosen` was added to their sums.
  std::optional<Best> SeeAndFindBest(std::size_t first, std::size_t count, std::optional<RowIndex> chosen);
  void FindBest(std::optional<RowIndex> chosen);

  std::vector<Member> members_;
  std::vector<std::uint8_t> open_;
  double factor_;
  kernel::KernelTiles<float> columns_;
  std::optional<Best> best_;
};

}  // namespace fulcrum::select
