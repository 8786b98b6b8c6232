// A campaign's examples in memory, normalised, with the validation set where there is one.
//
// Immutable and thread-safe after loading.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/ingest/row_ids.h"
#include "stages/kernel/features.h"

namespace fulcrum::pipeline {

class CampaignPool {
 public:
  /// Reads the plan's sources, which must lie inside `root`. InvalidArgument for one that does not.
  static absl::StatusOr<std::unique_ptr<CampaignPool>> Load(const CampaignPlan& plan, const std::string& root);

  const ingest::RowIds& ids() const { return ids_; }
  const kernel::Features& features() const { return *features_; }
  std::size_t rows() const { return features_->rows(); }
  /// Memory that features and payloads take.
  std::size_t bytes() const { return bytes_; }
  /// What a person needs to see of an example; empty where the pool has nothing to show.
  std::string PayloadOf(const std::string& item) const;
  /// Of one label.
  double CostOf(RowIndex row) const { return costs_.empty() ? 0 : costs_[row]; }

  /// Share of the validation set that the model predicts right; nothing without a validation set.
  std::optional<double> Accuracy(const classify::SvmModel& model) const;

 private:
  CampaignPool() = default;
  absl::Status LoadValidation(const CampaignPlan& plan, const std::string& root, const ingest::Normalizer& normalizer,
                              bool sparse);

  ingest::RowIds ids_;
  std::vector<std::string> payloads_;
  std::vector<double> costs_;
  std::unique_ptr<kernel::Features> features_;
  std::unique_ptr<kernel::Features> validation_;
  std::vector<ClassIndex> validation_labels_;
  std::size_t bytes_ = 0;
};

}  // namespace fulcrum::pipeline
