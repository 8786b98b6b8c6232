// The options of `fulcrum select`, and what they mean to a round.
#pragma once

#include <cstdint>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/round/round.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/pool.h"

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
