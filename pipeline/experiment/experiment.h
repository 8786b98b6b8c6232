// Runs an experiment: every strategy on every run of every task, in parallel over runs; a stopped experiment resumes.
//
// Curves depend on the spec and its seed alone, not on threads or interruptions; only the seconds in them vary. Blocks
// the caller and uses the threads of its arena.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/experiment_spec.h"
#include "pipeline/experiment/task_data.h"
#include "pipeline/round/progress.h"
#include "pipeline/round/round.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::pipeline {

/// Values from the command line that override the spec; empty or zero keeps the spec's value.
struct ExperimentChanges {
  std::vector<std::string> tasks = {};
  std::vector<std::string> strategies = {};  ///< of the spec, or any other known strategy
  std::size_t runs = 0;
  std::size_t rounds = 0;
};

/// InvalidArgument for unknown names.
absl::Status ChangeSpec(const ExperimentChanges& changes, ExperimentSpec& spec);

struct ExperimentOptions {
  std::string data_folder = {};
  std::string out_folder = {};  ///< the journal of finished runs is kept there
  bool resume = false;
  std::size_t threads = 1;  ///< runs at a time, if memory allows
  /// For data and runs together; 0: runs take half of the machine's memory, or more if a single run needs it.
  std::size_t memory_bytes = 0;
};

struct TaskSummary {
  std::string name = {};
  std::size_t rows = 0;
  std::size_t features = 0;
  std::size_t train_rows = 0;
  std::size_t test_rows = 0;     ///< fewer than the rest if classes are sampled
  std::size_t given_halves = 0;  ///< runs whose halves came from a file
  std::size_t given_starts = 0;
};

struct SkippedTask {
  std::string name = {};
  std::string reason = {};
};

struct ExperimentResult {
  CurveSet curves{{}};
  std::vector<TaskSummary> tasks = {};
  std::vector<SkippedTask> skipped = {};
  std::size_t resumed_curves = 0;  ///< read from the journal of an earlier start
  std::size_t foreign_curves = 0;  ///< in the journal, but of other settings, data or version
  double seconds = 0;              ///< of this start
};

/// FailedPrecondition if the folder has results and `resume` is not set, or no task has its data.
absl::StatusOr<ExperimentResult> RunExperiment(const ExperimentSpec& spec, const ExperimentOptions& options,
                                               Progress& progress);

/// The settings of a round of one strategy on one task in one run.
RoundSpec MakeRoundSpec(const ExperimentSpec& spec, const TaskSettings& task, const StrategySettings& strategy,
                        std::size_t run);

// All runs of one task: curves in the journal are reused, the others are computed, several runs at a time.

/// The progress of the whole experiment, in curves. Thread-safe.
struct JobProgress {
  Progress& progress;
  std::size_t total = 0;
  std::atomic<std::size_t> done = 0;

  void Finish(const std::string& what) { progress.UpdateJob(what, ++done, total); }
  void Skip() {
    ++done;
    progress.SkipJob();
  }
};

struct TaskRuns {
  const ExperimentSpec& spec;
  const TaskSettings& task;
  const TaskData& data;
  const RunSplits& splits;
  std::size_t threads = 1;
  std::size_t memory_bytes = 0;  ///< for all runs together; 0: half of the machine's, or what one run needs
};

struct TaskRunsResult {
  std::vector<Curve> curves = {};  ///< by strategy in the order of the spec, the full-data line last; then by run
  std::size_t resumed = 0;
  std::size_t train_rows = 0;
  std::size_t test_rows = 0;
};

/// Runs of one task share only its data. The first error ends all of them; finished curves are in the journal.
absl::StatusOr<TaskRunsResult> RunTask(const TaskRuns& runs, RunJournal& journal, JobProgress& job);

// One strategy on one run: query, label, train, test, repeat. METHOD section 3.
//
// The rounds are those that campaigns and `fulcrum select` run (pipeline/round/round.h), with answers from the known
// labels. Thread-safe on shared RunData.

/// `data` is tunable if spec.tune is set; unless it is, features are normalised by `normalize`. The curve of points
/// 0..rounds, fewer if the pool runs out. The caller sets the names and the number of the run.
/// With annotators the answers are the labels that their votes give, and spec.batch is the number of votes per round.
/// With costs the budget of each round, and what earlier rounds left, buys labels; spec.batch at most.
absl::StatusOr<Curve> RunStrategy(const RoundSpec& spec, std::size_t rounds, const RunData& data,
                                  std::span<const SimulatedAnnotator> annotators = {}, const VotingRule& voting = {},
                                  const SimulatedCosts& costs = {}, const std::string& normalize = "zscore,unit");

/// The same with the queries of a stream that may take `share` of its rows. The curve ends when
/// the stream does. InvalidArgument unless spec.tune is set.
absl::StatusOr<Curve> RunStream(const RoundSpec& spec, std::size_t rounds, const RunData& data, double share);

/// One point: a classifier trained on all labels of the training half.
absl::StatusOr<Curve> RunFullData(const RoundSpec& spec, const RunData& data,
                                  const std::string& normalize = "zscore,unit");

// Quality of predictions. Pure functions, thread-safe.

/// The share of correct predictions; 0 if there are none.
double Accuracy(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth);

/// 2 TP / (2 TP + FP + FN) of the class `positive`; 0 if it is neither present nor predicted.
double F1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth, ClassIndex positive);

/// The mean of F1Score over the classes of `truth`.
double MacroF1Score(std::span<const ClassIndex> predicted, std::span<const ClassIndex> truth);

/// Expected calibration error with ten bins of equal width: the mean difference between the probability of the
/// predicted class (rows x classes) and how often that class is right.
double CalibrationError(ConstMatrixView probabilities, std::span<const ClassIndex> predicted,
                        std::span<const ClassIndex> truth);

}  // namespace fulcrum::pipeline
