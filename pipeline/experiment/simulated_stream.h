// A stream for experiments: the rows of the training half arrive one at a time, in a random order, and each is taken or
// let go at once.
//
// The rows that are labeled at the start and a few more are known before the stream begins. After each round the
// classifier is trained on the labels so far, and the stream goes on until it has taken as many rows as a batch has.
// For a tuned classifier, whose data has numbers (run_data.h). Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "pipeline/experiment/run_data.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/stream/stream_selector.h"

namespace fulcrum::pipeline {

class SimulatedStream {
 public:
  /// `share` of the rows that arrive may be taken. The order follows from the seed. `data` must outlive it.
  SimulatedStream(double share, const RunData& data, std::uint64_t seed);

  /// The next `count` rows that are taken, fewer if the stream ends before. `model` was trained on `labels` with these
  /// settings.
  absl::StatusOr<RowList> Next(const ClassifierChoice& choice, const classify::SvmModel& model,
                               std::span<const ClassIndex> labels, std::size_t count);

  /// Rows that have arrived, taken or not.
  std::size_t arrived() const { return arrived_; }

 private:
  absl::Status UseModel(const ClassifierChoice& choice, const classify::SvmModel& model,
                        std::span<const ClassIndex> labels);

  const double share_;
  const RunData& data_;
  RowList known_;     // before the stream began
  RowList arriving_;  // in their order
  std::size_t arrived_ = 0;
  std::string normalized_;                         // how features_ are
  std::optional<kernel::DenseFeatures> features_;  // of all rows
  std::optional<stream::StreamSelector> selector_;
};

}  // namespace fulcrum::pipeline
