// One round of active learning: train, predict, partition, score class, select, commit. Campaigns, `fulcrum select` and
// `fulcrum experiment` all run it.
//
// A RoundRunner keeps what makes the next round cheap (the labeled examples' kernel, the multipliers, the
// pool's decision values, each class's kernel and subspace); the result does not depend on it beyond the
// solvers' tolerances. Not thread-safe: one round at a time. The features must outlive it.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/classify/svm_model.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {

struct TunedSettings;

/// The settings of a campaign that a round needs.
struct RoundSpec {
  std::string strategy = "dbalevs";
  std::size_t batch = 10;  ///< with a cost budget at most so many
  double cost_budget = 0;  ///< of the batch, with RoundInput::costs; 0: costs do not count
  kernel::KernelFunction leverage_kernel;
  double tau = 0.5;
  double alpha = 0.5;
  select::LeverageScale leverage_scale = select::LeverageScale::kNone;
  std::string engine = "auto";
  std::size_t landmarks = 0;     ///< landmark engine: per class; 0: by size and memory
  bool refine_landmarks = true;  ///< landmark engine: with the whole kernel of a class, if that is affordable
  std::size_t memory_bytes = 0;  ///< that a round may use besides the pool; 0: what the machine has
  classify::SvmParameters svm;
  bool tune = false;             ///< svm and the normalisation are chosen from the labels (tuning.h)
  bool leverage_follows = true;  ///< then leverage_kernel is on the same features, with a width from the data
  /// If the classifier was tuned: what was chosen. The other settings follow it already; this is for the record.
  std::shared_ptr<const TunedSettings> tuning;
  std::uint64_t seed = 1;
};

/// OK if a strategy can use the predictions of another model. InvalidArgument, with its name, if it does not look at
/// predictions, unless `may_ignore` allows that: then only strategies that train models of their own are refused.
absl::Status CheckUsesPredictions(const std::string& strategy, bool may_ignore);

/// Checks every setting that can be checked without data, and names the option that is wrong.
absl::Status ValidateRoundSpec(const RoundSpec& spec);

/// InvalidArgument that names the first of the rows whose kernels cannot be computed: values that are not finite, or so
/// large that sums of them are not.
absl::Status CheckKernels(const RoundSpec& spec, const kernel::Features& features, std::span<const RowIndex> rows);

/// Seconds spent in a stage. Stages of different classes overlap, so these need not sum to the round's.
struct StageSeconds {
  std::string stage;
  double seconds = 0;
};

struct RoundInput {
  std::size_t class_count = 0;
  /// By row; kUnlabeled if there is none.
  std::span<const ClassIndex> labels;
  /// By row, from the user's own model; ours is not trained then.
  std::optional<std::span<const ClassIndex>> predictions = {};
  /// The same as class probabilities, row after row, one per class: they decide the classes, the confidences and the
  /// margins. Rows need not sum to 1 exactly.
  std::optional<std::span<const float>> given_probabilities = {};
  std::size_t queries_so_far = 0;
  /// By row: how much a label weighs in training, such as the probability that it is right. Empty: all weigh 1.
  std::span<const double> weights = {};
  /// By row: what its label costs. Required with a cost budget.
  std::span<const double> costs = {};
  /// What is left to spend, if that is less than the cost budget of the round.
  double cost_left = std::numeric_limits<double>::infinity();
  /// Rows that must not be picked although they have no label: disputed, set aside, or in the batch anyway.
  std::span<const RowIndex> barred = {};
  /// Places of the batch that are taken; fewer than it has.
  std::size_t places_taken = 0;
  /// Train and predict whether the strategy asks for it or not.
  bool always_classify = false;
  /// Fit the probabilities of the model whether the strategy asks for them or not.
  bool probabilities = false;
  /// Report how probable the predicted classes are, if the strategy has classes predicted.
  bool confidence = false;
  /// Without it the round ends with predictions: nothing is scored or selected, and all rows may have labels.
  bool select = true;
  /// Stages that ran for the round before its graph, for the record.
  std::vector<StageSeconds> before = {};
};

struct ClassReport {
  ClassIndex class_index = 0;
  std::size_t rows = 0;  ///< m
  std::size_t labeled = 0;
  std::size_t rank = 0;    ///< k
  double trace_share = 0;  ///< tau reached
  std::string engine;
  std::string reason;
  double residual = 0;
  std::size_t products = 0;
  bool warm = false;
  bool degenerate_cut = false;
  std::vector<StageSeconds> seconds;
};

struct SvmReport {
  std::size_t support_vectors = 0;
  double dual_objective = 0;  ///< summed over the pairs of classes
  std::size_t iterations = 0;
  bool warm = false;
  std::size_t decision_columns_computed = 0;  ///< kernel columns over the pool; all support vectors on a cold start
};

struct RoundResult {
  select::Selection selection;
  std::vector<ClassIndex> predicted;  ///< by row; a labeled row has its label
  std::vector<double> confidence;     ///< by row: the probability of its most probable class; may be empty
  std::vector<double> leverage;       ///< by row, unscaled; empty if the strategy uses none
  std::vector<ClassReport> classes;   ///< empty if the strategy uses no leverage
  std::optional<SvmReport> svm;       ///< absent if predictions were given or not needed
  std::shared_ptr<const classify::SvmModel> model;  ///< present if svm is
  std::shared_ptr<const TunedSettings> tuning;      ///< present if the classifier was tuned
  std::vector<StageSeconds> seconds;
};

struct RoundMemory;

/// Called as stages begin and advance; must be thread-safe. `done` of `total` is in the stage's own unit.
using ProgressCallback = std::function<void(std::string_view stage, std::size_t done, std::size_t total)>;

/// The last step of a round: makes its result durable. A round whose result could not be committed has failed.
using CommitCallback = std::function<absl::Status(const RoundResult& result)>;

class RoundRunner {
 public:
  RoundRunner(RoundSpec spec, const kernel::Features& features) : RoundRunner(std::move(spec), features, features) {}
  /// `predicted` begins with the rows of `features`; decision values of the rows that follow, such as a test set, are
  /// computed in every round that trains a classifier.
  RoundRunner(RoundSpec spec, const kernel::Features& features, const kernel::Features& predicted);
  ~RoundRunner();

  /// The same features with more rows behind them, from the next round on: what is known about the old rows stays. They
  /// must outlive the runner.
  void MoveTo(const kernel::Features& grown);

  /// The record of what the settings were chosen from, for results from now on.
  void NoteTuning(std::shared_ptr<const TunedSettings> tuning) { spec_.tuning = std::move(tuning); }

  /// OutOfRange if every row is labeled already; CANCELLED if `stop` ended it early. After an error the next
  /// round starts cold.
  absl::StatusOr<RoundResult> Run(const RoundInput& input, const ProgressCallback& progress = {},
                                  std::stop_token stop = {}, const CommitCallback& commit = {});

  /// The decision values of the last model, by row of what is predicted.
  ConstMatrixView decisions() const;

  /// The landmarks of each class that uses them, for a runner that continues the rounds in another process.
  std::map<ClassIndex, RowList> Landmarks() const;
  /// Before the first round.
  void RecallLandmarks(const std::map<ClassIndex, RowList>& landmarks);

 private:
  RoundSpec spec_;
  const kernel::Features* features_;
  const kernel::Features* predicted_;
  std::unique_ptr<RoundMemory> memory_;
};

}  // namespace fulcrum::pipeline
