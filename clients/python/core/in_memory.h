// A round, and a classifier, on examples in memory: what `fulcrum select` does with files.
//
// The steps are those of the command (tune, normalise, one round of pipeline/round), with the same defaults, so the
// same examples and labels give the same batch. No Python in here. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/python/core/examples.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/model_file.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/normalize.h"

namespace fulcrum::python {

/// The options of `fulcrum select` that shape a result. Class weights are in spec.svm.
struct Settings {
  pipeline::RoundSpec spec;
  std::string normalize = "zscore,unit";  ///< unless it is tuned
  bool tune = true;
  bool leverage_given = false;   ///< the leverage kernel was given and does not follow the tuning
  std::size_t memory_bytes = 0;  ///< that the process may use; 0: three quarters of the machine's
  std::size_t threads = 0;       ///< 0: one per core
};

struct Labels {
  std::size_t class_count = 0;
  std::span<const ClassIndex> by_row;
  std::optional<std::span<const ClassIndex>> predictions = std::nullopt;
  std::optional<std::span<const float>> probabilities = std::nullopt;  ///< with `predictions`: rows x classes
  std::span<const RowIndex> barred = {};  ///< without a label, and not to be selected; ascending
};

struct Selected {
  pipeline::RoundResult round;
  std::shared_ptr<const pipeline::TunedSettings> tuned;  ///< null unless it was tuned
  std::vector<pipeline::StageSeconds> seconds;
};

/// CANCELLED if it was stopped, ResourceExhausted if there is not enough memory; other errors as in RoundRunner::Run.
absl::StatusOr<Selected> SelectInMemory(const Examples& examples, const Labels& labels, const Settings& settings,
                                        std::stop_token stop);

/// A trained classifier that predicts other examples. Thread-safe for reading.
struct Predictor {
  classify::SavedSvm svm;
  ingest::Normalizer normalizer;
  std::size_t cols = 0;
  pipeline::ClassifierChoice choice;  ///< the settings in use, tuned or given
};

struct Predictions {
  std::vector<ClassIndex> classes;
  Matrix<double> decisions;      ///< rows x pairs of classes
  Matrix<double> probabilities;  ///< rows x classes
};

/// Trains on all labeled rows. FailedPrecondition if fewer than two classes have labels.
absl::StatusOr<Predictor> Train(const Examples& examples, const Labels& labels, const Settings& settings,
                                std::stop_token stop);

/// InvalidArgument for other columns than the classifier was trained on.
absl::StatusOr<Predictions> Predict(const Predictor& predictor, const Examples& examples, std::size_t threads,
                                    std::stop_token stop);

}  // namespace fulcrum::python
