// What is known of every model of a campaign, round by round, as it stands in the log.
//
// The rules that end a campaign and the learning curve both follow from it, so a daemon that is started again counts
// and shows what the one before did. A plain value; used by one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/stopping_rules.h"
#include "pipeline/round.h"
#include "storage/campaign_records.h"

namespace fulcrum::pipeline {

class ModelHistory {
 public:
  /// From the models in the log. DataLoss where what is kept with one cannot be read.
  static absl::StatusOr<ModelHistory> Read(const std::vector<storage::StoredModel>& models);

  /// A round that was cut short is run again: its last model counts.
  void Add(const v1::ModelTrained& model) { models_[model.round()] = model; }

  /// Of the rounds up to this one, in order.
  std::vector<ModelScore> ScoresThrough(std::int64_t round) const;

  /// What a round took, beside what the last round before it took that started from nothing.
  v1::RoundEffort EffortOf(std::int64_t round, const RoundResult& result, double seconds) const;

 private:
  std::map<std::int64_t, v1::ModelTrained> models_;
};

}  // namespace fulcrum::pipeline
