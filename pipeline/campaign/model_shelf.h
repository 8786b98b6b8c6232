// The models of a campaign, read back from its store.
//
// The one that was asked for last stays in memory. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "stages/classify/svm_io.h"
#include "storage/campaign_records.h"
#include "storage/campaign_store.h"

namespace fulcrum::pipeline {

struct ShelvedModel {
  storage::StoredModel stored = {};
  classify::SavedSvm svm = {};
};

class ModelShelf {
 public:
  /// The store must outlive it.
  explicit ModelShelf(storage::CampaignStore& store) : store_(store) {}

  /// What the log says of a round's model, or of the latest for round 0. NotFound where there is none.
  absl::StatusOr<storage::StoredModel> Find(std::int64_t round);
  /// Its file, checked. DataLoss where it is damaged.
  absl::StatusOr<std::string> ReadBytes(const storage::StoredModel& stored) const;
  /// Ready to predict.
  absl::StatusOr<std::shared_ptr<const ShelvedModel>> Load(std::int64_t round);

 private:
  storage::CampaignStore& store_;
  std::mutex mutex_;
  std::shared_ptr<const ShelvedModel> last_;
};

}  // namespace fulcrum::pipeline
