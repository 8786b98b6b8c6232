// The specification of an experiment: tasks, strategies, rounds, and the results to compare with. Read from YAML.
//
// Plain values. ParseExperimentSpec reports every problem of a file at once, each with its line and path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/experiment/curves.h"
#include "stages/consensus/consensus.h"
#include "stages/core/matrix.h"
#include "stages/core/random.h"
#include "stages/core/rows.h"
#include "stages/ingest/synthetic.h"
#include "stages/kernel/kernel_function.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {

// Simulated annotators for experiments: they make mistakes, skip, or answer at random.
//
// A round of an experiment spends a number of votes on the rows that the strategy selected, best first. Each row gets
// as many votes as the rule for labels wants; a row that is not decided when the votes are spent is continued in the
// next round, and after the last one its votes decide as they are. The rules are those of campaigns
// (storage/state/crowd.h, storage/rules/round_rules.h): the majority of a fixed number of votes, or the consensus of
// Dawid and Skene with a fixed or an adaptive number, in which a classifier can be one more voice. Annotators whose
// answers take time work side by side, and the one that is free first is asked next; a round ends with its last answer.
// Not thread-safe.

struct SimulatedAnnotator {
  std::vector<double> accuracy = {0.8};  ///< by class; a single value is for all of them
  bool spammer = false;                  ///< answers at random, whatever the accuracy
  double skip = 0;                       ///< share of the rows that it skips
  double seconds = 0;                    ///< mean time of an answer or a skip, whose logarithm varies normally
  double cost = 0;                       ///< of an answer

  double AccuracyOf(std::size_t class_index) const {
    return accuracy.size() == 1 ? accuracy[0] : accuracy[class_index];
  }
};

/// What labels cost: drawn per row, evenly on a logarithmic scale.
struct SimulatedCosts {
  double low = 1;
  double high = 1;
  double budget = 0;  ///< per round; 0: labels cost nothing
  bool weigh = true;  ///< the strategy knows them; otherwise its batch is bought in order while the budget lasts

  bool limits() const { return budget > 0; }
  /// By row.
  std::vector<double> Draw(std::size_t rows, std::uint64_t seed) const;
};

/// How votes become labels.
struct VotingRule {
  bool dawid_skene = false;
  std::size_t overlap = 1;  ///< 0: until the most probable class has the probability `confidence`; with Dawid-Skene
  std::size_t max_votes = 5;
  double confidence = 0.95;
  double first_confidence = 1;     ///< that a row needs when it is asked about for the first time
  double classifier_weight = 0.5;  ///< of the classifier besides the votes; with an adaptive number of votes
  bool weights = true;             ///< doubtful labels count less in training; with Dawid-Skene
  bool excess_weights = false;     ///< by what their probability is above chance, instead of by it
  double pause_below = 0;  ///< annotators that are surely less accurate are not asked any more; with Dawid-Skene

  bool adaptive() const { return dawid_skene && overlap == 0; }
  bool hears_classifier() const { return adaptive() && classifier_weight > 0; }
  /// For the fingerprint of a run.
  std::string Describe() const;
};

class SimulatedCrowd {
 public:
  /// `truth` by row, which must outlive it. Everything follows from the seed.
  SimulatedCrowd(std::vector<SimulatedAnnotator> annotators, const VotingRule& rule, std::size_t class_count,
                 std::span<const ClassIndex> truth, std::uint64_t seed);

  /// What a classifier says from now on, by row and class; of rows that have a label, one that did not see it.
  void Hear(Matrix<double> voice) { voice_ = std::move(voice); }

  /// Spends the votes on rows that are not decided yet, then on labels in doubt if another vote on them says more than
  /// the first ones on these rows, and then on these. Writes labels and weights of decided rows.
  void Ask(std::span<const RowIndex> rows, std::size_t votes, std::span<ClassIndex> labels, std::span<double> weights);

  /// After the last round: the votes on rows that are not decided decide as they are, if they weigh differently.
  void AcceptVotes(std::span<ClassIndex> labels, std::span<double> weights);

  std::size_t votes() const { return votes_.size(); }
  /// Time that has passed until the end of the last round.
  double seconds() const { return seconds_; }
  /// What the answers have cost.
  double cost() const { return cost_; }
  std::size_t decided() const { return decided_.size(); }
  /// Rows with votes that are not decided, ascending.
  RowList Undecided() const;
  /// Share of the decided rows whose label is right; nothing before the first.
  std::optional<double> LabelAccuracy(std::span<const ClassIndex> labels) const;
  std::size_t paused_spammers() const { return CountPaused(true); }
  std::size_t paused_others() const { return CountPaused(false); }

 private:
  /// A row that was asked about.
  struct Asked {
    RowIndex row = 0;
    std::vector<consensus::ItemVote> votes = {};
    std::vector<bool> unavailable = {};  ///< by annotator: has voted or skipped
    std::size_t votes_before = 0;        ///< of earlier rounds
  };
  enum class Next { kAsk, kDecided, kDropped };

  /// `again`: it has votes of earlier rounds, and got none in this one yet.
  Next NextFor(const Asked& asked, bool again) const;
  /// Votes once more on the row; false if there is no annotator to ask.
  bool Vote(Asked& asked, std::uint32_t item);
  bool AnybodyLeft(const Asked& asked) const;
  std::uint32_t ChooseAnnotator(const std::vector<std::uint32_t>& available);
  /// An answer, or that there is none, takes the annotator this time.
  void SpendTime(std::uint32_t annotator);
  /// Decided rows that are asked about again rather than these, the most informative vote first.
  std::vector<std::uint32_t> TakeDoubtful(std::span<const RowIndex> rows);
  void WriteLabels(std::span<ClassIndex> labels, std::span<double> weights) const;
  ClassIndex AnswerOf(std::size_t annotator, ClassIndex truth);
  void Estimate();
  std::vector<double> PosteriorOf(RowIndex row, std::span<const consensus::ItemVote> votes) const;
  std::size_t CountPaused(bool spammers) const;

  const std::vector<SimulatedAnnotator> annotators_;
  const VotingRule rule_;
  const std::size_t classes_;
  const std::span<const ClassIndex> truth_;
  Random random_;
  std::vector<Asked> asked_;            // in the order in which they were asked about first
  std::vector<std::uint32_t> pending_;  // places in asked_
  std::vector<std::uint32_t> decided_;
  std::vector<consensus::Vote> votes_;
  std::optional<consensus::AnnotatorModel> model_;
  std::size_t estimated_votes_ = 0;
  std::vector<bool> paused_;
  Matrix<double> voice_;
  bool takes_time_ = false;
  std::vector<double> free_at_;  // by annotator
  double seconds_ = 0;
  double cost_ = 0;
};

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
