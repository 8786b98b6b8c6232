// Takes in the predictions of a model process, part by part: checks them, and makes them durable.
//
// What is wrong with them is said with the row and the class. Nothing is stored before all rows have arrived and are
// right. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign.h"
#include "storage/campaign_files.h"
#include "storage/rules/model_rules.h"

namespace fulcrum::pipeline {

class PredictionUpload {
 public:
  /// InvalidArgument, PermissionDenied: see storage::FindModelTask.
  static absl::StatusOr<std::unique_ptr<PredictionUpload>> Begin(std::shared_ptr<Campaign> campaign,
                                                                 storage::ModelLeaseRequest lease);
  ~PredictionUpload();

  /// 32-bit floats, row after row.
  absl::Status AddPlain(const std::string& bytes);
  /// An Arrow IPC stream with a column per class.
  absl::Status AddArrow(const std::string& bytes);
  /// Everything has arrived: on disk when it returns OK.
  absl::StatusOr<storage::StorePredictionsAnswer> Finish();

 private:
  PredictionUpload(std::shared_ptr<Campaign> campaign, storage::ModelLeaseRequest lease)
      : campaign_(std::move(campaign)), plan_(campaign_->plan()), lease_(std::move(lease)) {}
  absl::Status Add(std::span<const float> rows);

  const std::shared_ptr<Campaign> campaign_;
  const std::shared_ptr<const CampaignPlan> plan_;
  const storage::ModelLeaseRequest lease_;
  std::optional<storage::ModelTask> task_;  // nothing if it is over: the request may be a repeat
  std::optional<storage::PredictionFileWriter> writer_;
  bool stored_ = false;
};

}  // namespace fulcrum::pipeline
