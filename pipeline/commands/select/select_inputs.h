// The files that `fulcrum select` reads, brought together and checked against each other.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/commands/select/select_options.h"
#include "pipeline/round/progress.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "stages/core/communicator.h"
#include "stages/core/rows.h"
#include "stages/ingest/columns/row_ids.h"
#include "stages/ingest/formats/table_writer.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

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

// The tables of select_tables.h with types, for outputs whose ending asks for Parquet or Arrow IPC.

/// The format that the ending of an output asks for; nothing for CSV, which every other ending means.
std::optional<ingest::TableFormat> TypedFormatOf(const std::string& path);

/// The bytes of a file.
absl::StatusOr<std::string> BatchBytes(const SelectInputs& inputs, const RoundResult& result,
                                       ingest::TableFormat format);
absl::StatusOr<std::string> ScoresBytes(const SelectInputs& inputs, const RoundResult& result,
                                        ingest::TableFormat format);

}  // namespace fulcrum::pipeline
