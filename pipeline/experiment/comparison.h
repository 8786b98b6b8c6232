// Rounds won, tied and lost by one strategy against the others, and what the paper counted. Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/experiment_spec.h"

namespace fulcrum::pipeline {

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
