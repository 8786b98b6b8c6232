// The input and the result of a query strategy.
//
// A strategy is a pure function of the Candidates: the caller (a one-shot command, a campaign round, an experiment)
// computes what the strategy requires, and nothing else. Strategies have no state between calls (data that speeds up
// the next call is kept in the groups) and are thread-safe. Ties always go to the smaller row.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::select {

// The order of scores: larger first, NaN last, ties to the smaller row.
//
// Every sort, heap and maximum over scores in stages/select uses it. Comparing doubles with < is not an order if one of
// them is NaN: sorting is undefined then, and a loop over equal values may never end. Pure functions, thread-safe.

/// A strict weak order of scores alone, for std::sort and the like: larger first, then NaN. All NaN are equal.
struct LargerFirst {
  bool operator()(double a, double b) const { return a > b || (std::isnan(b) && !std::isnan(a)); }
};

/// Whether the score `a` of row `row_a` goes before the score `b` of row `row_b`. A total order if rows differ.
inline bool GoesBefore(double a, RowIndex row_a, double b, RowIndex row_b) {
  const LargerFirst larger_first;
  return larger_first(a, b) || (!larger_first(b, a) && row_a < row_b);
}

/// FailedPrecondition that names the first row whose score is NaN: a batch chosen by such scores would be arbitrary.
/// scores[i] belongs to rows[i]; `what` says what was computed.
absl::Status CheckScores(const char* what, std::span<const RowIndex> rows, std::span<const double> scores);

class SimilarityMemory;

/// How leverage scores enter the set function of DBALEVS (METHOD: "Scale").
enum class LeverageScale { kNone, kMean, kMax };

/// "none", "mean" or "max".
absl::StatusOr<LeverageScale> ParseLeverageScale(std::string_view name);

/// One class group X_c: the examples labeled with class c and the unlabeled examples predicted to be in it; or, for
/// strategies without classes, the whole pool. Views are valid only during the call.
struct Group {
  ClassIndex class_index = 0;
  std::span<const RowIndex> rows = {};
  std::span<const double> leverage = {};  ///< l_i, unscaled, in the order of rows; empty if not required
  /// Maximum error of leverage; if above 0, refine_leverage returns exact values.
  double leverage_slack = 0;
  /// Computes the exact leverage of the rows at some positions, updates `leverage`, and returns it.
  std::function<std::vector<double>(std::span<const std::size_t> positions)> refine_leverage = {};
  std::size_t rank = 0;         ///< k
  ConstMatrixView kernel = {};  ///< K_c in the order of rows; empty if it is not in memory
  /// State of the group's greedy selection without a kernel, carried from round to round; may be null.
  SimilarityMemory* similarities = nullptr;
};

/// What a strategy requires besides features and labels, so that nothing else is computed.
struct Requirements {
  bool predictions = false;    ///< predicted
  bool confidence = false;     ///< confidence (Platt)
  bool probabilities = false;  ///< probabilities (Platt, coupled)
  bool margin = false;         ///< margin
  bool class_groups = false;   ///< groups per class, with leverage and kernel
  bool pool_leverage = false;  ///< pool_leverage
  /// Does without margin and probabilities if the predictions are the user's own, which have none.
  bool given_predictions_suffice = false;
  /// Leverage may be inexact; the strategy calls Group::refine_leverage if exact values are needed.
  bool bounds_suffice = false;
};

/// What a batch may cost, and what each row costs.
struct CostLimit {
  /// By row of the pool, at least 0; a row that costs infinity cannot be bought. Empty: costs do not count.
  std::span<const double> costs = {};
  double budget = 0;

  bool limits() const { return !costs.empty(); }
};

struct Candidates {
  const kernel::Features* features = nullptr;
  kernel::KernelFunction leverage_kernel;
  kernel::KernelFunction classifier_kernel;
  std::size_t class_count = 0;
  std::span<const ClassIndex> labels;     ///< by row; kUnlabeled if unlabeled
  std::span<const ClassIndex> predicted;  ///< by row; a labeled row has its label
  std::span<const double> confidence;     ///< by row: p(y*|x) of the predicted class
  /// Rows x classes: the probability of each class; 0 for a class without labels. Labeled rows have the classifier's.
  ConstMatrixView probabilities;
  /// By row: the smallest decision value of the predicted class against another class, so 0 or less is the greatest
  /// doubt. With two classes the distance from the border, |f(x)|. Not a probability: it needs no calibration.
  std::span<const double> margin;
  std::span<const Group> groups;          ///< one per class, in the order of class indices
  std::span<const double> pool_leverage;  ///< by row, over the whole pool
  std::size_t queries_so_far = 0;         ///< labels requested since the start, for schedules

  std::size_t batch = 1;  ///< with a cost limit at most so many
  CostLimit cost = {};    ///< only for a strategy that weighs costs
  double alpha = 0.5;
  LeverageScale scale = LeverageScale::kNone;
  std::uint64_t seed = 1;
};

struct Pick {
  RowIndex row = 0;
  ClassIndex class_index = kUnlabeled;  ///< the predicted class, if the strategy uses it
  double leverage = 0;                  ///< unscaled; zero if the strategy does not use it
  double gain = 0;                      ///< the value by which the strategy ranked it
};

/// How close a batch is to the optimum: DBALEVS and strategies with the same set function, and with a cost limit those
/// that cover (greedy/submodular_greedy.h), whose F counts what the batch adds to the labeled examples.
struct Certificate {
  double value = 0;        ///< F of the batch and the labeled examples, summed over the classes
  double upper_bound = 0;  ///< no batch of this size, or within the cost limit, can have a larger F
};

struct Selection {
  std::vector<Pick> picks;  ///< in order of selection; fewer than requested if the pool is exhausted
  bool has_certificate = false;
  Certificate certificate;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual Requirements requirements() const = 0;
  /// Whether the picks depend on which rows are labeled but not on the labels. Then a batch of b equals b rounds of
  /// one, and a caller may request many rounds at once.
  virtual bool ignores_answers() const { return false; }
  /// Whether it has nothing to go by before two classes have labels. The first batch is made by `herding` then, which
  /// covers the pool.
  virtual bool needs_labels() const { return true; }
  /// Whether it looks for the best batch that Candidates::cost allows. Nothing is picked if no row fits.
  virtual bool weighs_costs() const { return false; }
  /// Requires at least one unlabeled row, and everything that requirements() names.
  virtual absl::StatusOr<Selection> Select(const Candidates& candidates) const = 0;
};

/// Returns the unlabeled rows, ascending.
RowList UnlabeledRows(std::span<const ClassIndex> labels);
/// Returns the labeled rows, ascending.
RowList LabeledRows(std::span<const ClassIndex> labels);

/// The `count` rows with the largest scores, best first, ties to the smaller row. scores[i] belongs to rows[i].
/// FailedPrecondition if a score is NaN.
absl::StatusOr<std::vector<Pick>> TopByScore(std::span<const RowIndex> rows, std::span<const double> scores,
                                             std::size_t count);

/// The unlabeled rows with the largest scores, with their predicted classes. FailedPrecondition if a score is NaN.
absl::StatusOr<Selection> SelectTopByScore(const Candidates& candidates, const std::function<double(RowIndex)>& score);

/// Sets the predicted class of each pick, if there are predictions.
void AnnotateClasses(const Candidates& candidates, std::span<Pick> picks);

// Ranks instead of values, so that scores of different kinds can be combined.

/// The rank of each value, scaled so that the smallest is 0 and the largest 1. Equal values share the mean of
/// their ranks; a single value, or values all equal, get 1/2. NaN ranks below all numbers.
std::vector<double> ScaledRanks(std::span<const double> values);

// The strategies by name. A new strategy is one file, its factory here and one line in strategy.cc.

struct StrategyEntry {
  std::string name;
  std::string summary;      ///< one-line description
  std::string when_to_use;  ///< one-line advice
  std::function<std::unique_ptr<Strategy>()> make;
};

/// The default strategy.
inline constexpr char kDefaultStrategy[] = "adaptive-herding";
/// Makes the batch as long as a strategy that needs labels has none of two classes.
inline constexpr char kStrategyWithoutLabels[] = "herding";

const std::vector<StrategyEntry>& Strategies();
/// Returns a strategy by name, or an error that lists the existing names.
absl::StatusOr<std::unique_ptr<Strategy>> MakeStrategy(std::string_view name);

// One function per strategy, implemented in the folder strategies/. Stateless and thread-safe.
std::unique_ptr<Strategy> MakeAdaptiveHerding();
std::unique_ptr<Strategy> MakeAlevs();
std::unique_ptr<Strategy> MakeBadge();
std::unique_ptr<Strategy> MakeCommittee();
std::unique_ptr<Strategy> MakeDbalevs();
std::unique_ptr<Strategy> MakeEntropy();
std::unique_ptr<Strategy> MakeHerding();
std::unique_ptr<Strategy> MakeHybrid();
std::unique_ptr<Strategy> MakeKCenter();
std::unique_ptr<Strategy> MakeLeastConfident();
std::unique_ptr<Strategy> MakeLevOnAll();
std::unique_ptr<Strategy> MakeMargin();
std::unique_ptr<Strategy> MakeMostConfident();
std::unique_ptr<Strategy> MakeNearOpt();
std::unique_ptr<Strategy> MakeQuire();
/// Keeps this many candidates up to date; the batch does not depend on it.
std::unique_ptr<Strategy> MakeQuireWithShortlist(std::size_t shortlist);
std::unique_ptr<Strategy> MakeRandom();
std::unique_ptr<Strategy> MakeTed();
std::unique_ptr<Strategy> MakeTopLev();
std::unique_ptr<Strategy> MakeTypical();
std::unique_ptr<Strategy> MakeUncertaintyHerding();

}  // namespace fulcrum::select
