// The curves of an experiment, found by task and strategy. Immutable after construction, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/experiment/experiment_spec.h"

namespace fulcrum::pipeline {

// What one run of one strategy gives: how good the classifier is after every round. Plain values.

/// The name under which the classifier trained on the whole training half is recorded, next to the strategies.
inline constexpr char kFullData[] = "full-data";

struct CurvePoint {
  std::size_t round = 0;              ///< 0 is the start, before any query
  std::size_t labels = 0;             ///< with simulated annotators votes, next to the labels of the start
  double accuracy = 0;                ///< on the test half
  double f1 = 0;                      ///< of the positive class, on the test half
  double queried_positive_share = 0;  ///< among all queries so far; not a number before the first
  double train_seconds = 0;
  double predict_seconds = 0;
  double select_seconds = 0;  ///< to choose the queries of this round; 0 at the start
  double macro_f1 = 0;        ///< mean of the F1 scores of all classes of the test half
  /// Expected calibration error of the predicted class's probability, on the test half; not a number if the classifier
  /// has no probabilities.
  double calibration_error = std::numeric_limits<double>::quiet_NaN();
  /// Share of the labels so far that are right, with simulated annotators; not a number without.
  double label_accuracy = std::numeric_limits<double>::quiet_NaN();
  double paused_spammers = 0;  ///< simulated annotators who answer at random and were paused
  double paused_others = 0;    ///< other simulated annotators who were paused
  double cost = 0;             ///< of the labels so far, if they cost something
};

struct Curve {
  std::string task;
  std::string strategy;  ///< its name in the experiment, or kFullData
  std::size_t run = 0;
  std::vector<CurvePoint> points;
};

/// What curves are compared by.
enum class Metric { kAccuracy, kF1, kMacroF1, kLabelAccuracy };

inline double ValueOf(const CurvePoint& point, Metric metric) {
  switch (metric) {
    case Metric::kAccuracy:
      return point.accuracy;
    case Metric::kF1:
      return point.f1;
    case Metric::kMacroF1:
      return point.macro_f1;
    case Metric::kLabelAccuracy:
      return point.label_accuracy;
  }
  return 0;
}

/// "accuracy", "F1", "macro-F1" or "accuracy of the labels".
std::string MetricName(Metric metric);

/// The area under a curve up to a round by the trapezoid rule, over the number of rounds: a mean of the metric.
double AreaUnder(const Curve& curve, std::size_t last_round, Metric metric);

class CurveSet {
 public:
  /// In the order of the tables: by task, strategy and run, in the order of the caller.
  explicit CurveSet(std::vector<Curve> curves) : curves_(std::move(curves)) {}

  const std::vector<Curve>& all() const { return curves_; }
  /// The curves of a strategy on a task, by ascending run.
  std::vector<const Curve*> Of(const std::string& task, const std::string& strategy) const;
  /// Names that have curves, in the order of their first curve; kFullData is not a strategy.
  std::vector<std::string> Tasks() const;
  std::vector<std::string> StrategiesOf(const std::string& task) const;

  /// The metric at one round, one entry per run that reached it, in the order of runs.
  std::vector<double> ValuesAt(const std::string& task, const std::string& strategy, std::size_t round,
                               Metric metric) const;
  /// The mean of the full-data line; not a number if there is none.
  double FullDataMean(const std::string& task, Metric metric) const;
  /// The last round that every run of the task's strategies has.
  std::size_t LastRound(const std::string& task) const;

 private:
  std::vector<Curve> curves_;
};

// curves.csv: every point of every curve.

/// task,strategy,run,round,labels,accuracy,f1,positive_share,train_seconds,predict_seconds,select_seconds,macro_f1,
/// calibration_error,label_accuracy,paused_spammers,paused_others,cost. The share of the positive class among the
/// queries so far is empty before the first query, and the calibration error if the classifier has no probabilities.
std::string CurvesTable(const CurveSet& curves);

// The file in which finished runs of an experiment are recorded, so that a stopped experiment can be resumed.
//
// One line per curve, appended and made durable when the curve is complete; a line that was truncated by a crash is
// detected by its checksum and removed. Thread-safe for Append.

/// A curve and the fingerprint of everything that decides it.
struct JournalEntry {
  std::uint64_t fingerprint = 0;
  Curve curve = {};
};

class RunJournal {
 public:
  /// Opens or creates the file and reads its valid lines.
  static absl::StatusOr<std::unique_ptr<RunJournal>> Open(const std::string& path);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  /// The content of the file when it was opened.
  const std::vector<JournalEntry>& entries() const { return entries_; }
  /// After OK the curve is durable.
  absl::Status Append(const JournalEntry& entry);

 private:
  RunJournal(std::string path, int descriptor);
  absl::Status Load();

  const std::string path_;
  const int descriptor_;
  std::vector<JournalEntry> entries_;
  std::mutex mutex_;
};

/// A line of the journal without its end, and back; nothing if it is damaged.
std::string FormatJournalLine(const JournalEntry& entry);
std::optional<JournalEntry> ParseJournalLine(const std::string& line);

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
