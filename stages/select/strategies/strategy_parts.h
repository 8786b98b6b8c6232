// What several strategies, and rounds over several processes, share besides greedy/ and posterior/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

// The class groups of a pool: their leverage, their shares of a batch, and what helps a class that has few labels.
//
// Leverage scores of the groups are scaled as required by a strategy. METHOD section 1, "Scale".

/// Returns the factor of l_i of the group: 1, m/k (the mean becomes 1), or 1 over the largest (which becomes 1).
double LeverageFactor(const Group& group, LeverageScale scale);
/// Returns l_i of the group times the factor.
std::vector<double> ScaledLeverage(const Group& group, LeverageScale scale);

/// The unlabeled rows of all groups and, in the same order, their scores.
struct ScoredRows {
  RowList rows;
  std::vector<double> scores;
};
/// Scores are multiplied by m/k within each class, so that classes of different sizes and ranks are comparable.
ScoredRows ScoreUnlabeledByLeverage(const Candidates& candidates);

/// Sets the class and the unscaled leverage of each pick from its group.
void AnnotateFromGroups(const Candidates& candidates, std::span<Pick> picks);

// Division of a batch among the classes. METHOD section 1: b_c = b / C; the remainder goes to the classes with the
// fewest labels; the share of an exhausted class goes to the others by the same rule.

/// Returns the share of each class. The sum is `batch`, or all available rows if there are fewer. Among classes with
/// the same number of labels the smaller index is first.
std::vector<std::size_t> DivideBatch(std::size_t batch, std::span<const std::size_t> labeled_counts,
                                     std::span<const std::size_t> available_counts);

// Restricts the candidates while one class has fewer labels than the others.
//
// A classifier trained on a few labels is biased to the class that has more of them, and with a kernel that is flat in
// many dimensions it predicts one class everywhere. Therefore the class with the fewest labels is queried until it has
// caught up: if it is b labels behind the mean of the others, the share 2^-b of C m candidates may be picked, those
// that most likely belong to it. C is the number of classes and m the number of candidates that appear to be in this
// class. C m is the pool if classes have equal sizes, and less if this class is rare, for which a share of the whole
// pool would include too many other examples. The further the class is behind, the fewer of its last queries found an
// example of it, and the more certain the next ones must be. DBALEVS gives the remainder of a batch to the class with
// the fewest labels; this does the same for single queries. Pure functions.

/// Returns the number of labels per class.
std::vector<std::size_t> LabelCounts(std::span<const ClassIndex> labels, std::size_t class_count);

/// Returns one row per class: +n / 2n_c for its labeled examples and -n / 2(n - n_c) for the others, so that both sides
/// have equal weight in a regression.
Matrix<double> BalancedTargets(std::span<const ClassIndex> labels, std::span<const RowIndex> labeled,
                               std::span<const std::size_t> counts);

/// Returns the class with the largest mean per candidate.
std::vector<std::size_t> LikelyClasses(ConstMatrixView means);

/// Returns one entry per row of `means` (candidates x classes): whether it may be picked. All may be picked if no class
/// lags, and always at least five, if there are as many. A class without labels has no mean and is ignored.
std::vector<bool> EligibleForLaggingClass(std::span<const std::size_t> counts, ConstMatrixView means);

// The parts of strategies that rounds over several processes call (pipeline/cluster).

// The strategy adaptive-herding: how it covers a pool. Pure functions, thread-safe.

/// The width, and a weight per reference.
struct CoverWeights {
  double width = 1;
  std::vector<double> weights = {};
};

/// From the squared distance of every reference to the nearest labeled row, and its margin.
CoverWeights AdaptiveCover(std::span<const double> nearest, std::span<const double> margins, double labels_per_class);

/// The margins that adaptive-herding uses if the predictions are those of another model, which come without: of least
/// squares on the labels, with targets +1 and -1 for one class against the rest. `labels` are those of `labeled`.
absl::StatusOr<std::vector<double>> MarginsOfLeastSquares(const kernel::Features& features,
                                                          const kernel::KernelFunction& kernel,
                                                          std::span<const RowIndex> labeled,
                                                          std::span<const ClassIndex> labels, std::size_t class_count,
                                                          std::span<const RowIndex> rows);

// The strategy hybrid over a pool that is spread over processes.
//
// Every rank computes how much doubt its own candidates would remove. The root ranks all of them, which takes 16 bytes
// per candidate, gathers the features of a shortlist and selects from it as one process does. Every rank makes the same
// calls; not thread-safe, loops run in parallel inside.

struct SharedHybrid {
  const Communicator& peers;
  kernel::GuestFeatures& features;     ///< gets the references as guests while they are needed
  kernel::KernelFunction kernel;       ///< of the classifier
  std::span<const RowIndex> labeled;   ///< guests: the labeled rows of the pool
  std::span<const ClassIndex> labels;  ///< of these rows
  std::size_t class_count = 0;
  std::span<const RowIndex> rows;    ///< the candidates of this process, ascending
  std::span<const double> leverage;  ///< of these rows, over the whole pool
  std::size_t first_row = 0;         ///< of the pool that this process has
  std::size_t batch = 1;
  std::uint64_t seed = 1;
};

/// The picks, with rows of the pool, on every rank. The same batch for any number of ranks.
absl::StatusOr<std::vector<Pick>> SelectHybridTogether(const SharedHybrid& shared);

}  // namespace fulcrum::select
