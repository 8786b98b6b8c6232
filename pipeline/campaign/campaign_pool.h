// A campaign's examples, normalised, with the validation set where there is one. In memory, or left on the disk where
// they are an imported pool that is large beside the machine's memory.
//
// Immutable and thread-safe: a pool that grows is a new one, and rounds that began with the old one keep it. What rows
// that come later are normalised with was learned from the rows that were there first, so that those never change.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/mapped_source.h"
#include "stages/classify/svm_model.h"
#include "stages/core/rows.h"
#include "stages/ingest/column_roles.h"
#include "stages/ingest/pool.h"
#include "stages/ingest/row_ids.h"
#include "stages/kernel/features.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {

class CampaignPool {
 public:
  /// Reads the plan's sources, which must lie inside `root`. InvalidArgument for one that does not.
  static absl::StatusOr<std::shared_ptr<const CampaignPool>> Load(const CampaignPlan& plan, const std::string& root);

  /// This pool with the rows of an imported one behind its own. InvalidArgument where they do not fit,
  /// FailedPrecondition for a pool that is on the disk.
  absl::StatusOr<std::shared_ptr<const CampaignPool>> With(const std::string& folder) const;

  const ingest::RowIds& ids() const { return ids_; }
  const kernel::Features& features() const { return *features_; }
  std::size_t rows() const { return features_->rows(); }
  /// Memory that features and payloads take.
  std::size_t bytes() const;
  /// Of dense features, in order; empty for sparse ones.
  const std::vector<std::string>& feature_names() const { return feature_names_; }
  bool sparse() const { return sparse_; }
  /// What a person needs to see of an example; empty where the pool has nothing to show.
  std::string PayloadOf(const std::string& item) const;
  /// Of one label.
  double CostOf(RowIndex row) const { return costs_.empty() ? 0 : costs_[row]; }

  /// Where it was read from, and folders that were added, in order.
  const std::vector<std::string>& sources() const { return sources_; }
  const std::vector<std::string>& appended_folders() const { return appended_folders_; }
  /// What the columns of a table mean whose rows are to join it.
  const ingest::ColumnOptions& columns() const { return columns_; }

  /// Rows as they stand in files, prepared as the pool's own were; they need as many features.
  absl::StatusOr<std::unique_ptr<kernel::Features>> Prepare(ingest::PoolFeatures rows) const;
  /// A row of the pool with all its zeros, prepared.
  void CopyRow(RowIndex row, std::span<double> to) const;
  /// Prepares dense rows in place; they must have as many columns as the pool.
  void Normalize(MutableMatrixView rows) const { normalizer_->Apply(rows); }

  /// Share of the validation set that the model predicts right; nothing without a validation set.
  std::optional<double> Accuracy(const classify::SvmModel& model) const;

 private:
  struct ValidationSet {
    std::unique_ptr<kernel::Features> features;
    std::vector<ClassIndex> labels;
  };

  CampaignPool() = default;
  absl::Status LoadValidation(const CampaignPlan& plan, const std::string& root);
  absl::Status DescribeColumns(const CampaignPlan& plan);
  /// False where the sources should be read into memory.
  absl::StatusOr<bool> MapSources(const CampaignPlan& plan);
  absl::Status ReadSources(const CampaignPlan& plan);

  std::vector<std::string> sources_;
  std::vector<std::string> appended_folders_;
  ingest::ColumnOptions columns_;
  ingest::RowIds ids_;
  std::vector<std::string> feature_names_;
  std::vector<std::string> payloads_;
  std::optional<storage::MappedPool> mapped_;  // where payloads are read from as they are asked for
  std::vector<double> costs_;
  std::shared_ptr<const ingest::Normalizer> normalizer_;
  bool scales_rows_ = false;  // sparse rows are brought to unit length
  bool sparse_ = false;
  std::unique_ptr<kernel::Features> features_;
  std::shared_ptr<const ValidationSet> validation_;
};

}  // namespace fulcrum::pipeline
