// The models of a campaign: what the log says of them, their files, and what they predict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/model_file.h"
#include "storage/campaign_store.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::pipeline {

// What is known about every model of a campaign, round by round, from the log.
//
// The rules that end a campaign and the learning curve are both derived from it, so a restarted daemon counts and shows
// the same as before. A plain value; used by one thread at a time.

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

  /// The round whose features of a model process the last round before this one used; 0: it used the pool's.
  std::int64_t FeaturesRoundBefore(std::int64_t round) const;

  /// What a round took, next to what the last cold round before it took.
  v1::RoundEffort EffortOf(std::int64_t round, const RoundResult& result, double seconds) const;

 private:
  std::map<std::int64_t, v1::ModelTrained> models_;
};

/// What a tuned classifier chose, as it is recorded with a model.
v1::ClassifierTuning ToProto(const TunedSettings& settings);
std::shared_ptr<const TunedSettings> TuningFrom(const v1::ClassifierTuning& tuning);

// Rows of features as clients send them, in the columns of a campaign's pool.
//
// Immutable and thread-safe; the pool must outlive it.

class FeatureRows {
 public:
  /// `names` are those of the columns of the rows; empty: the pool's columns in their order. InvalidArgument, with
  /// names, unless they are the features of the pool.
  static absl::StatusOr<FeatureRows> Make(const CampaignPool& pool,
                                          const google::protobuf::RepeatedPtrField<std::string>& names);

  /// Writes a row, with 32 bits as in the pool's files and not normalised, to `to`, which has a place for each feature
  /// of the pool. InvalidArgument for a row that is not one of the pool's; `called` is its name in the message.
  absl::Status Read(const v1::FeatureRow& row, const std::string& called, std::span<double> to) const;

 private:
  std::vector<std::size_t> columns_;  // where each feature of the pool is; empty: in their order
};

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

  /// What the log says of a round's model, or of the latest for round 0. NotFound if there is none.
  absl::StatusOr<storage::StoredModel> Find(std::int64_t round);
  /// Its file, checked. DataLoss if it is damaged.
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

// What a campaign's model says of examples: those of the pool by name, or rows of features. Pure functions of their
// arguments; thread-safe.

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
