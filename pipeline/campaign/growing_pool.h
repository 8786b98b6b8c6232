// A campaign's pool as its log says that it is: the sources, and the rows that were appended.
//
// Growing makes a new pool; whoever holds the old one keeps it. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/campaign/campaign_pool.h"
#include "storage/campaign_folder.h"
#include "storage/campaign_records.h"

namespace fulcrum::pipeline {

class GrowingPool {
 public:
  explicit GrowingPool(std::shared_ptr<const CampaignPool> pool) : pool_(std::move(pool)) {}

  std::shared_ptr<const CampaignPool> now() const;

  /// The pool with all that was appended, in order. What is missing is read from the campaign's folder, or taken from
  /// `prepared`, which is the pool with one folder more. DataLoss where a folder is not what it was.
  absl::StatusOr<std::shared_ptr<const CampaignPool>> Follow(const std::vector<storage::AppendedRows>& appended,
                                                             const storage::CampaignFolder& folder,
                                                             std::shared_ptr<const CampaignPool> prepared = nullptr);

 private:
  mutable std::mutex mutex_;
  std::mutex growing_;  // one at a time, without keeping readers waiting
  std::shared_ptr<const CampaignPool> pool_;
};

}  // namespace fulcrum::pipeline
