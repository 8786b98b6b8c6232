// The files that `fulcrum select` reads, brought together and checked against each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/progress.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "stages/core/communicator.h"
#include "stages/core/rows.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/row_ids.h"
#include "stages/ingest/formats/table_writer.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

// The options of `fulcrum select`, and what they mean to a round.

struct SelectOptions {
  std::string pool;
  std::string labels;
  std::string predictions;
  std::string normalize = "zscore,unit";
  ingest::ColumnOptions columns = {};  ///< of the pool

  std::string strategy;  ///< empty: DefaultStrategy()
  std::uint64_t batch = 10;
  double cost_budget = 0;  ///< 0: costs do not count
  double alpha = 0.5;
  std::string leverage_scale = "none";

  std::string kernel = "rbf";
  double sigma = 1;
  double poly_c = 1;
  int degree = kernel::kDefaultDegree;
  bool normalize_kernel = false;
  double tau = 0.5;
  std::string engine = "auto";
  std::uint64_t landmarks = 0;  ///< 0: as many as size and memory suggest
  bool no_refine = false;

  std::string tune;               ///< "auto" or "off"; empty: auto unless settings of the classifier are given
  bool classifier_given = false;  ///< --normalize, --svm-... or --class-weights was given
  bool leverage_given = false;    ///< --kernel or one of its parameters was given
  std::string svm_kernel = "rbf";
  double svm_sigma = 1;
  double svm_poly_c = 1;
  int svm_degree = kernel::kDefaultDegree;
  double svm_c = 1;
  std::string class_weights;

  /// Of --stream.
  struct Stream {
    bool on = false;
    bool given = false;  ///< one of the options below was given
    std::string budget = "1%";
    std::string state;
    double novelty = 1;
    std::uint64_t drift_window = 500;
    double drift_rate = 0.001;
  };
  Stream stream = {};

  std::string out = "-";
  std::string scores;
  std::string report;

  std::uint64_t seed = 1;
  int threads = 0;
  std::string memory;      ///< empty: three quarters of the machine's
  int processes_here = 1;  ///< that share this memory
  bool quiet = false;
  bool verbose = false;
};

/// Adds the options, with their help texts; the values go to `options`, which must outlive the parsing.
void AddSelectOptions(CLI::App& app, SelectOptions& options);

/// Whether the classifier is tuned. Predictions of the user's own model leave nothing to tune.
bool TunesClassifier(const SelectOptions& options);

/// What is used if --strategy is not given: hybrid, or dbalevs where predictions are given, which hybrid would not
/// use.
std::string DefaultStrategy(const SelectOptions& options);

/// Everything that can be checked without a file: InvalidArgument names the option, its value and the range.
absl::Status ValidateSelectOptions(const SelectOptions& options);

/// What --memory says, in bytes; three quarters of the machine's if it says nothing.
absl::StatusOr<std::size_t> MemoryOf(const SelectOptions& options);
/// The part of it that this process may take for what it reads.
absl::StatusOr<std::size_t> MemoryHere(const SelectOptions& options);

/// The settings of the round, class weights and memory apart.
absl::StatusOr<RoundSpec> MakeRoundSpec(const SelectOptions& options);

/// Factors of C by class index from "name=factor,...", one if a class is not named; or, from "balanced",
/// the inverse of each class's share of the labels. Empty from an empty text.
absl::StatusOr<std::vector<double>> ParseClassWeights(const std::string& text, const ingest::ClassNames& classes,
                                                      std::span<const ClassIndex> labels);

/// The strategies with what they are and when to use them, for `--strategy list`.
std::string ListStrategies();

// Seconds a command spends in each of its stages. Not thread-safe.

class StageClock {
 public:
  /// Runs `body` and books its time under `stage`; returns what it returns.
  template <typename Body>
  auto Measure(std::string stage, const Body& body) {
    const Clock::time_point start = Clock::now();
    auto result = body();
    seconds_.push_back({std::move(stage), SecondsSince(start)});
    return result;
  }

  /// Books the times of stages that were measured elsewhere.
  void Add(const std::vector<StageSeconds>& seconds) {
    seconds_.insert(seconds_.end(), seconds.begin(), seconds.end());
  }

  const std::vector<StageSeconds>& seconds() const { return seconds_; }
  double TotalSeconds() const { return SecondsSince(start_); }

 private:
  using Clock = std::chrono::steady_clock;
  static double SecondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Clock::time_point start_ = Clock::now();
  std::vector<StageSeconds> seconds_;
};

struct SelectInputs {
  ingest::RowIds ids;
  std::unique_ptr<kernel::Features> features;  ///< normalised; dense or sparse
  std::shared_ptr<const TunedSettings> tuned;  ///< null if the classifier is not tuned
  std::vector<std::string> feature_names;      ///< of dense features, before they are normalised
  std::shared_ptr<const ingest::Normalizer> normalizer;
  ingest::ClassNames classes;
  RowShare share;                                      ///< the rows of this process; all of them if it is alone
  std::vector<ClassIndex> labels;                      ///< by row of the share
  std::optional<std::vector<ClassIndex>> predictions;  ///< by row of the share; a labeled row has its label
  std::vector<float> probabilities;                    ///< given ones, row after row, one per class; empty: none
  std::vector<double> costs;                           ///< by row of the pool; empty without a cost budget
  std::size_t labeled = 0;                             ///< of the whole pool
  std::vector<std::string> notes;                      ///< what the user should know about the data

  std::size_t unlabeled() const { return share.total - labeled; }
};

/// OutOfRange if every row is labeled, FailedPrecondition if the labels are too few for the strategy. With several
/// processes each has its share of the features, labels and predictions, and all have the ids of the pool; errors and
/// settings that are chosen from the labels are those of all.
absl::StatusOr<SelectInputs> LoadSelectInputs(const SelectOptions& options, const Communicator& peers,
                                              Progress& progress, StageClock& clock);

// The tables that `fulcrum select` writes, as CSV text.

/// The predicted class of a row, or its label if nothing was predicted; kUnlabeled if neither is known.
ClassIndex ClassOf(const SelectInputs& inputs, const RoundResult& result, RowIndex row);

/// rank,id,class,leverage,gain
std::string BatchTable(const SelectInputs& inputs, const RoundResult& result);

/// id,class,labeled,leverage,probability, of the rows of the share. The leverage is empty if the strategy uses none,
/// the class if none is known, the probability of a labeled row and if nothing was predicted.
std::string ScoresTable(const SelectInputs& inputs, const RoundResult& result);

// The same tables with types, for outputs whose ending asks for Parquet or Arrow IPC.

/// The format that the ending of an output asks for; nothing for CSV, which every other ending means.
std::optional<ingest::TableFormat> TypedFormatOf(const std::string& path);

/// The bytes of a file.
absl::StatusOr<std::string> BatchBytes(const SelectInputs& inputs, const RoundResult& result,
                                       ingest::TableFormat format);
absl::StatusOr<std::string> ScoresBytes(const SelectInputs& inputs, const RoundResult& result,
                                        ingest::TableFormat format);

// What `fulcrum select` writes besides the tables.

/// What the user should know about this batch, the notes on the data first.
std::vector<std::string> CollectNotes(const SelectOptions& options, const SelectInputs& inputs,
                                      const Communicator& peers, const RoundResult& result);
/// The report as JSON, as the help text of the command describes it.
std::string ReportText(const SelectOptions& options, const SelectInputs& inputs, const RoundResult& result,
                       const std::vector<std::string>& notes, const StageClock& clock);

// What the processes of `fulcrum select` do together before the round: they agree on the memory, map their shares of
// the pool, and use what the root chooses. With one process each of these is what that process does alone.
//
// Every process makes the same calls.

/// The options with the smallest memory of all processes: it decides whether the pool is mapped and which engines are
/// used, which must not differ between machines, nor depend on how many processes there are. Those that share a machine
/// also share its memory, unless --memory says what each may take.
absl::StatusOr<SelectOptions> AgreeOnMemory(const SelectOptions& options, const Communicator& peers);

/// The share of this process of an imported pool that is large compared with the memory; nothing if the pool is to be
/// read.
absl::StatusOr<std::optional<MappedSource>> MapPool(const SelectOptions& options, const Communicator& peers);

/// DataLoss on those whose fingerprint ("pool-labels") is not that of the root.
absl::Status CheckSameInputs(const Communicator& peers, const std::string& fingerprint);

/// The root chooses; the other ranks learn what they need of it.
absl::StatusOr<std::shared_ptr<const TunedSettings>> ChooseTogether(
    const Communicator& peers, const std::function<absl::StatusOr<std::shared_ptr<const TunedSettings>>()>& choose);

/// For an imported pool of which this process has a share: rows of others are read from the files. The pool must
/// outlive it.
std::unique_ptr<FeatureSource> SourceOfWholePool(const storage::MappedPool& pool);

/// Drops the features of other processes. InvalidArgument if they are sparse.
absl::Status KeepShare(SelectInputs& inputs);

}  // namespace fulcrum::pipeline
