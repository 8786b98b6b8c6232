// Runs an experiment: every strategy on every run of every task, in parallel over runs; a stopped experiment resumes.
//
// Curves depend on the spec and its seed alone, not on threads or interruptions; only the seconds in them vary. Blocks
// the caller and uses the threads of its arena.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
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

/// The same with the queries of a stream that may take `share` of its rows. With annotators, rows that were taken and
/// got no vote in their round come first in the next one. The curve ends when the stream does. InvalidArgument unless
/// spec.tune is set.
absl::StatusOr<Curve> RunStream(const RoundSpec& spec, std::size_t rounds, const RunData& data, double share,
                                std::span<const SimulatedAnnotator> annotators = {}, const VotingRule& voting = {});

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

// Rounds won, tied and lost by one strategy against the others, and what the paper counted. Pure functions.

// Student's t: the paired one-sided test and the confidence intervals of the experiments. Pure functions, thread-safe.

/// P(T <= t) for Student's t with this many degrees of freedom, > 0.
double StudentCdf(double t, double degrees_of_freedom);

/// The t with P(T <= t) = probability, in (0, 1).
double StudentQuantile(double probability, double degrees_of_freedom);

enum class Verdict { kWin, kTie, kLoss };

/// Whether `a` is larger than `b` (a win) or smaller (a loss) by a one-sided paired t-test at this level; a tie
/// otherwise. Element i of both belongs to run i. Differences that are all the same are a win or loss unless zero;
/// fewer than two pairs are a tie.
Verdict ComparePaired(std::span<const double> a, std::span<const double> b, double level = 0.05);

struct MeanInterval {
  double mean = 0;
  double half_width = 0;  ///< of the two-sided confidence interval; 0 for fewer than two values
};

/// NaN values are ignored.
MeanInterval MeanWithInterval(std::span<const double> values, double confidence = 0.95);

/// How our counts compare with the paper's.
enum class Agreement {
  kSame,       ///< more rounds won than lost in both, fewer in both, or as many in both
  kUndecided,  ///< as many won as lost in one of them
  kOpposite,
};

/// Means over the rounds of a span, in percentage points of the metric: why a cell leans as it does.
struct SpanMeans {
  MeanInterval over_opponent = {};  ///< the subject's lead over the opponent, with a confidence interval over the runs
  /// Leads over random, which needs no settings and is the same in every program; absent if it is not run.
  std::optional<double> subject_over_random = {};
  std::optional<double> opponent_over_random = {};
};

/// One cell of the table: a task, an opponent and a span of rounds.
struct WtlCell {
  std::string task = {};
  std::string opponent = {};
  std::size_t span_index = 0;
  RoundSpan span = {};  ///< truncated at the last existing round
  WtlCounts counts = {};
  SpanMeans means = {};
  std::optional<WtlCounts> paper = {};

  /// kSame if the paper has no counts.
  Agreement agreement() const;
};

/// 1 if more rounds are won than lost, -1 if fewer, 0 if as many.
int LeanOf(const WtlCounts& counts);

/// A one-sided paired t-test at 0.05 over the runs for every round.
std::vector<WtlCell> CompareWithSubject(const ExperimentSpec& spec, const CurveSet& curves);

/// "same", "undecided" or "opposite".
std::string AgreementName(Agreement agreement);

/// Why a cell may differ from the paper's: the note of the task and opponent, of the opponent, or nothing.
std::string NoteOn(const ComparisonSettings& comparison, const WtlCell& cell);

/// "a is 1.2 ± 0.3 points above b; a is 3.1 above random, b 1.9 above it".
std::string DescribeMeans(const std::string& subject, const WtlCell& cell);

/// wtl.csv: task,subject,opponent,first_round,last_round,win,tie,loss,lead,lead_half_width,paper_win,paper_tie,
/// paper_loss,lean,note; the lead in percentage points
std::string WtlTable(const ExperimentSpec& spec, const std::vector<WtlCell>& cells);

// The regret of each strategy: the area between its curve and that of the best strategy of the task. Pure functions.

struct RegretEntry {
  std::string strategy = {};
  double area = 0;    ///< under the mean curve by the trapezoid rule, over the number of rounds: a mean of the metric
  double regret = 0;  ///< the best strategy's area minus this one
  double share = 0;   ///< of the best strategy's area
  /// Labels with which the mean curve first has kEnoughOfFullData of what all labels give; absent if it never does, or
  /// if there is no full-data line.
  std::optional<double> labels_needed = {};
  double labels_at_end = 0;  ///< of the last round, mean over the runs
};

inline constexpr double kEnoughOfFullData = 0.95;

struct TaskRegret {
  std::string task = {};
  std::vector<RegretEntry> entries = {};  ///< in the order of the curves
};

std::vector<TaskRegret> ComputeRegret(const CurveSet& curves, Metric metric);

/// Mean and largest share over the tasks that have the strategy.
struct RegretSummary {
  std::string strategy = {};
  double mean_share = 0;
  double largest_share = 0;
};

/// Smallest mean first.
std::vector<RegretSummary> SummarizeRegret(const std::vector<TaskRegret>& tasks);

/// How many labels a strategy needs, next to random.
struct LabelNeeds {
  std::string strategy = {};
  std::size_t reached = 0;  ///< tasks in which it has kEnoughOfFullData of what all labels give
  std::size_t tasks = 0;    ///< in which it or random does
  /// Median over these tasks of its labels over random's. If only one of the two gets there, the other one needs at
  /// least what it had at its end: the ratio is then at most this one, or infinite. Absent without random.
  std::optional<double> median_of_random = {};
};

/// In the order of the first task.
std::vector<LabelNeeds> SummarizeLabels(const std::vector<TaskRegret>& tasks);

/// regret.csv: task,strategy,area,regret,share,labels_to_95; the last one empty if labels_needed is absent
std::string RegretTable(const std::vector<TaskRegret>& tasks);

// Mean ranks of strategies and which of them differ: Friedman's ranks with Nemenyi's critical difference, as in Demsar,
// "Statistical Comparisons of Classifiers over Multiple Data Sets" (2006). Pure functions.

struct StrategyRank {
  std::string strategy = {};
  double mean_rank = 0;  ///< 1 is best; equal areas share their ranks
};

struct RankComparison {
  std::vector<StrategyRank> ranks = {};  ///< best first
  /// What is ranked in: every task or, with fewer than five tasks, every run of every task.
  std::size_t blocks = 0;
  bool blocks_are_tasks = false;
  double critical_difference = 0;  ///< at 0.05: strategies whose mean ranks are closer cannot be distinguished

  /// The largest sets of consecutive strategies, two or more, that cannot be distinguished: first and last index each.
  std::vector<std::pair<std::size_t, std::size_t>> Groups() const;
};

/// Ranks by the area under the curve. Strategies that some task or run lacks are left out. Nothing if fewer than two
/// strategies or two blocks are left, or more than 20 strategies, for which the test has no tabulated values.
std::optional<RankComparison> CompareRanks(const CurveSet& curves, Metric metric);

}  // namespace fulcrum::pipeline
