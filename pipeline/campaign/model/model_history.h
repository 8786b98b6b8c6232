// What is known about every model of a campaign, round by round, from the log.
//
// The rules that end a campaign and the learning curve are both derived from it, so a restarted daemon counts and shows
// the same as before. A plain value; used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::pipeline {

class ModelHistory {
 public:
  /// From the models in the log. DataLoss if the record of one cannot be read.
  static absl::StatusOr<ModelHistory> Read(const std::vector<storage::StoredModel>& models);

  /// A round that was interrupted is run again: its last model counts.
  void Add(const v1::ModelTrained& model) { models_[model.round()] = model; }

  /// Of the rounds up to this one, in order.
  std::vector<ModelScore> ScoresThrough(std::int64_t round) const;

  /// What the classifier of the last round before this one chose for itself; null if it was not tuned.
  std::shared_ptr<const TunedSettings> TuningBefore(std::int64_t round) const;

  /// What a round took, next to what the last cold round before it took.
  v1::RoundEffort EffortOf(std::int64_t round, const RoundResult& result, double seconds) const;

 private:
  std::map<std::int64_t, v1::ModelTrained> models_;
};

/// What a tuned classifier chose, as it is recorded with a model.
v1::ClassifierTuning ToProto(const TunedSettings& settings);
std::shared_ptr<const TunedSettings> TuningFrom(const v1::ClassifierTuning& tuning);

}  // namespace fulcrum::pipeline
