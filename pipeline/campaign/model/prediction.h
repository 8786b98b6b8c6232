// What a campaign's model says of examples: those of the pool by name, or rows of features.
//
// A pure function of its arguments; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "stages/classify/model_file.h"
#include "storage/campaign_store.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::pipeline {

// The models of a campaign, read back from its store.
//
// The one that was asked for last stays in memory. Thread-safe.

struct ShelvedModel {
  storage::StoredModel stored = {};
  classify::SavedSvm svm = {};
  std::string normalize = {};  ///< how its features were normalised, if it was tuned; empty: as the pool's
};

class ModelCache {
 public:
  /// The store must outlive it.
  explicit ModelCache(storage::CampaignStore& store) : store_(store) {}

  /// What the log says of a round's model, or of the latest for round 0. NotFound where there is none.
  absl::StatusOr<storage::StoredModel> Find(std::int64_t round);
  /// Its file, checked. DataLoss where it is damaged.
  absl::StatusOr<std::string> ReadBytes(const storage::StoredModel& stored) const;
  /// Opens its file, which is undamaged, and returns its size.
  absl::StatusOr<std::size_t> OpenFile(const storage::StoredModel& stored, std::ifstream& file) const;
  /// Ready to predict.
  absl::StatusOr<std::shared_ptr<const ShelvedModel>> Load(std::int64_t round);

 private:
  storage::CampaignStore& store_;
  std::mutex mutex_;
  std::shared_ptr<const ShelvedModel> last_;
};

/// NotFound for an example that the pool does not have; InvalidArgument for a row with other features than the pool's,
/// or too many of them.
absl::StatusOr<v1::PredictResponse> Predict(const CampaignPlan& plan, const CampaignPool& pool,
                                            const ShelvedModel& model, const v1::PredictRequest& request);

/// The model as a file in one of the formats other than Fulcrum's own. InvalidArgument if the format cannot express it.
absl::StatusOr<std::string> ExportModel(const CampaignPlan& plan, const CampaignPool& pool, const ShelvedModel& model,
                                        v1::ModelFormat format);

/// The process whose predictions a stored model is; empty for the built-in classifier.
std::string ModelProcessOf(const storage::StoredModel& stored);

/// The same from the predictions of a model process: examples of the pool by name only. FailedPrecondition for rows of
/// features, and for examples that were added after the predictions were made.
absl::StatusOr<v1::PredictResponse> PredictStored(const CampaignPlan& plan, const CampaignPool& pool,
                                                  const storage::CampaignFolder& folder,
                                                  const storage::StoredModel& stored,
                                                  const v1::PredictRequest& request);

}  // namespace fulcrum::pipeline
