// What a query strategy sees and what it answers.
//
// A strategy is a pure function of the Candidates: the caller (a one-shot command, a campaign round, an
// experiment) computes what the strategy says it needs, and nothing else. Strategies hold no state
// between calls (what makes the next one cheap, its groups remember) and are safe to call concurrently. Ties go to the
// smaller row everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::select {

class SimilarityMemory;

/// How leverage scores enter DBALEVS' set function (METHOD: "Scale").
enum class LeverageScale { kNone, kMean, kMax };

/// "none", "mean" or "max".
absl::StatusOr<LeverageScale> ParseLeverageScale(std::string_view name);

/// One class group X_c: the labeled of class c and the unlabeled predicted to be in it. Or, for strategies
/// that know no classes, the whole pool. Views are valid during the call only.
struct Group {
  ClassIndex class_index = 0;
  std::span<const RowIndex> rows = {};
  std::span<const double> leverage = {};  ///< l_i, unscaled, in the order of rows; empty if not asked for
  /// Where it is above 0, leverage may be off by so much; refine_leverage makes it right where that matters.
  double leverage_slack = 0;
  /// Makes the leverage of the rows at some positions exact, in `leverage` too, and returns it.
  std::function<std::vector<double>(std::span<const std::size_t> positions)> refine_leverage = {};
  std::size_t rank = 0;         ///< k
  ConstMatrixView kernel = {};  ///< K_c in the order of rows; empty where it is not in memory
  /// What the group's greedy selection without a kernel left for this one, and leaves for the next; may be null.
  SimilarityMemory* similarities = nullptr;
};

/// What a strategy needs beside features and labels, so that nothing is computed in vain.
struct Requirements {
  bool predictions = false;    ///< predicted
  bool confidence = false;     ///< confidence (Platt)
  bool class_groups = false;   ///< groups a class, with leverage and kernel
  bool pool_leverage = false;  ///< pool_leverage
  /// Leverage need not be exact where nothing depends on it: Group::refine_leverage will be asked.
  bool bounds_suffice = false;
};

struct Candidates {
  const kernel::Features* features = nullptr;
  kernel::KernelFunction leverage_kernel;
  kernel::KernelFunction classifier_kernel;
  std::size_t class_count = 0;
  std::span<const ClassIndex> labels;     ///< by row; kUnlabeled where there is none
  std::span<const ClassIndex> predicted;  ///< by row; a labeled row has its label
  std::span<const double> confidence;     ///< by row: p(y*|x) of the predicted class
  std::span<const Group> groups;          ///< one a class, in the order of class indices
  std::span<const double> pool_leverage;  ///< by row, over the whole pool
  std::size_t queries_so_far = 0;         ///< labels asked for since the start, for schedules

  std::size_t batch = 1;
  double alpha = 0.5;
  LeverageScale scale = LeverageScale::kNone;
  std::uint64_t seed = 1;
};

struct Pick {
  RowIndex row = 0;
  ClassIndex class_index = kUnlabeled;  ///< the predicted class, where the strategy knows one
  double leverage = 0;                  ///< unscaled; zero where the strategy has none
  double gain = 0;                      ///< what the strategy ranked it by
};

/// How near a batch is to the best possible one (DBALEVS and what shares its set function).
struct Certificate {
  double value = 0;        ///< F of the chosen batch with the labeled, summed over the classes
  double upper_bound = 0;  ///< no batch of this size can have a larger F
};

struct Selection {
  std::vector<Pick> picks;  ///< in the order they were chosen; fewer than asked when the pool runs out
  bool has_certificate = false;
  Certificate certificate;
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual Requirements requirements() const = 0;
  /// Whether the picks depend on which rows are labeled but not on the answers, so that a batch of b equals b
  /// rounds of one: a caller may then ask for many rounds at once.
  virtual bool ignores_answers() const { return false; }
  /// At least one unlabeled row is left, and all that requirements() names is filled.
  virtual absl::StatusOr<Selection> Select(const Candidates& candidates) const = 0;
};

/// The unlabeled rows, ascending.
RowList UnlabeledRows(std::span<const ClassIndex> labels);
/// The labeled rows, ascending.
RowList LabeledRows(std::span<const ClassIndex> labels);

/// The `count` rows with the largest scores, best first, ties to the smaller row. scores[i] belongs to rows[i].
/// FailedPrecondition if a score is NaN.
absl::StatusOr<std::vector<Pick>> TopByScore(std::span<const RowIndex> rows, std::span<const double> scores,
                                             std::size_t count);

/// The unlabeled rows with the largest scores, with their predicted classes. FailedPrecondition if a score is NaN.
absl::StatusOr<Selection> SelectTopByScore(const Candidates& candidates, const std::function<double(RowIndex)>& score);

/// Fills in the predicted class of each pick, where there are predictions.
void AnnotateClasses(const Candidates& candidates, std::span<Pick> picks);

// Ranks in place of values, so that scores of different kinds can be mixed.

/// The rank of each value, scaled so that the smallest is 0 and the largest 1. Equal values share the mean of
/// their ranks; a single value, or values all equal, get 1/2. NaN ranks below all numbers.
std::vector<double> ScaledRanks(std::span<const double> values);

}  // namespace fulcrum::select
