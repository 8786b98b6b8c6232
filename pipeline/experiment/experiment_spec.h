// The specification of an experiment: tasks, strategies, rounds, and the results to compare with. Read from YAML.
//
// Plain values. ParseExperimentSpec reports every problem of a file at once, each with its line and path.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/simulated_crowd.h"
#include "stages/ingest/synthetic.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {

/// Rounds first..last, counted from 1.
struct RoundSpan {
  std::size_t first = 1;
  std::size_t last = 1;
};

struct WtlCounts {
  std::size_t win = 0;
  std::size_t tie = 0;
  std::size_t loss = 0;
};

/// A generated data set.
struct GeneratedData {
  ingest::SyntheticSpec problem = {};
  std::size_t rows = 0;
  std::size_t dims = 20;
};

/// Rows of one class are dropped until the majority has `ratio` rows for each row of the other class.
struct ImbalanceSettings {
  std::string majority = {};  ///< name of the class that keeps as many rows as possible
  double ratio = 1;
};

struct TaskSettings {
  std::string name = {};
  std::string data = {};  ///< a path below the data folder or a URI; empty if generated
  std::optional<GeneratedData> generated = {};
  /// The class that F1 and the queried share are about; empty: "1" if there is such a class, otherwise the rarest.
  std::string positive = {};
  std::string train_splits = {};  ///< file with one line per run: rows of the training half; optional
  std::string starts = {};        ///< file with one line per run: rows labeled at the start; may be shorter
  std::optional<ImbalanceSettings> imbalance = {};
  kernel::KernelFunction leverage_kernel = {};
  bool leverage_given = false;  ///< leverage_kernel does not follow a tuned classifier
  double tau = 0.5;
  double alpha = 0.5;
  select::LeverageScale scale = select::LeverageScale::kNone;
  /// By opponent of the compared strategy, one entry per span.
  std::map<std::string, std::vector<WtlCounts>> paper = {};
};

/// The strategy that sees rows one at a time, in a random order, and takes or lets go each at once
/// (strategy_run.cc). In experiments only.
inline constexpr char kStreamStrategy[] = "stream";

/// How labels become a model.
struct ClassifierSettings {
  bool tune = false;  ///< the classifier chooses its settings and the normalisation; the rest is unused
  std::string normalize = "zscore,unit";
  std::string classifier = "svm";  ///< a name of classify::Classifiers()
  kernel::KernelFunction kernel = {};
  double c = 1;
};

/// The settings of a strategy; those that are not set are taken from the task.
struct StrategySettings {
  std::string name = {};  ///< in tables and charts
  std::string strategy = {};
  std::optional<double> tau = {};
  std::optional<double> alpha = {};
  std::optional<select::LeverageScale> scale = {};
  std::string engine = "auto";
  std::size_t landmarks = 0;  ///< landmark engine: per class; 0: by size and memory
  bool refine_landmarks = true;
  VotingRule voting = {};    ///< with simulated annotators
  bool weighs_costs = true;  ///< with costs
  double stream_share = 0;   ///< of kStreamStrategy: of the rows that arrive, that may be taken
  std::optional<ClassifierSettings> classifier = {};  ///< instead of the experiment's
};

/// The strategy whose wins are counted, and why counts may differ from the published ones.
struct ComparisonSettings {
  std::string subject = {};  ///< empty: no comparison
  std::vector<RoundSpan> spans = {};
  std::map<std::string, std::string> notes = {};  ///< by opponent, or by "task/opponent"
};

struct ExperimentSpec {
  std::string name = {};
  std::string title = {};
  std::string description = {};
  std::size_t runs = 50;
  std::size_t rounds = 100;
  std::size_t batch = 1;
  std::size_t start_per_class = 2;
  std::uint64_t seed = 1;
  Metric metric = Metric::kAccuracy;
  ClassifierSettings classifier = {};
  bool full_data = true;  ///< also train a classifier on all labels, which is slow on a large pool
  std::vector<StrategySettings> strategies = {};
  /// If there are any, `batch` is a number of votes, and labels are what their votes give.
  std::vector<SimulatedAnnotator> annotators = {};
  /// If labels cost something, they are bought in the order of the batch while the budget of the round lasts.
  SimulatedCosts costs = {};
  ComparisonSettings comparison = {};
  std::vector<TaskSettings> tasks = {};
};

/// The classifier of a strategy, which may have its own.
const ClassifierSettings& ClassifierOf(const ExperimentSpec& spec, const StrategySettings& strategy);

/// The number of curves of a run of a task: one per strategy, and the full-data line.
std::size_t CurvesOfRun(const ExperimentSpec& spec);

/// InvalidArgument with every problem of the text; `path` is for messages.
absl::StatusOr<ExperimentSpec> ParseExperimentSpec(const std::string& text, const std::string& path);
absl::StatusOr<ExperimentSpec> LoadExperimentSpec(const std::string& path);

}  // namespace fulcrum::pipeline
