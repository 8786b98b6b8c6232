// The files beside a campaign's database: models, and each round's scores and batch.
//
// A file is written whole, made durable together with its name, and only then told of in the log; one that the log does
// not name is a leftover of something interrupted and will be replaced. Stateless; one file is handled by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "storage/campaign_folder.h"
#include "storage/state/campaign_records.h"
#include "storage/state/round_rules.h"

namespace fulcrum::storage {

/// Writes a model's bytes; what comes back is to be recorded with RecordModel.
absl::StatusOr<RecordModelRequest> WriteModelFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::int64_t trained_on, std::string_view bytes);
/// NotFound or DataLoss where the file is not what was recorded.
absl::StatusOr<std::string> ReadModelFile(const CampaignFolder& folder, const StoredModel& model);

/// Columns of equal length: what a round knew of every row it looked at.
struct RoundScores {
  std::vector<std::string> items = {};
  std::vector<std::string> predicted = {};  ///< class
  std::vector<bool> labeled = {};
  std::vector<double> leverage = {};
};

/// The batch, best first, and why.
struct RoundBatch {
  std::vector<std::string> items = {};
  std::vector<std::string> predicted = {};
  std::vector<double> leverage = {};
  std::vector<double> gain = {};
  std::string strategy = {};
  // Empty if they were read from a file of an older version.
  std::vector<std::int64_t> rank_in_class = {};  ///< by leverage, among the unlabeled rows of the predicted class
  std::vector<std::int64_t> class_size = {};     ///< unlabeled rows of the predicted class
  std::vector<double> uncertainty = {};          ///< of the prediction, from 0 to 1; below 0 without a model
  std::vector<std::string> nearest = {};         ///< labeled rows, a line "id<tab>label<tab>distance" each
};

/// Writes both as Parquet; what comes back are the names for CommitBatchRequest::files.
absl::StatusOr<std::vector<std::string>> WriteRoundFiles(const CampaignFolder& folder, std::int64_t round,
                                                         const RoundScores& scores, const RoundBatch& batch);

/// The batch of a committed round. NotFound or DataLoss if its file is missing or damaged.
absl::StatusOr<RoundBatch> ReadRoundBatch(const CampaignFolder& folder, std::int64_t round);

/// The class that a committed round gave each row, in the pool's order. NotFound or DataLoss where the file is not
/// there or damaged.
absl::StatusOr<std::vector<std::string>> ReadRoundPredictions(const CampaignFolder& folder, std::int64_t round);

// The landmarks that a round saw each class from, kept beside its scores: a campaign that is opened again goes on with
// them, and so comes to the batch that it would have come to.
//
// A small text file, "class,row" a line. Stateless; one file is handled by one thread.

/// By class, or by a number below 0 for a group that is no class.
using LandmarksByClass = std::map<ClassIndex, RowList>;

/// What comes back is the name for CommitBatchRequest::files.
absl::StatusOr<std::string> WriteLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                              const LandmarksByClass& landmarks);

/// Of a committed round; nothing where it had none. DataLoss where the file is damaged: rows of a class must ascend,
/// and be of a pool of `pool_rows`.
absl::StatusOr<LandmarksByClass> ReadLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::size_t pool_rows);

}  // namespace fulcrum::storage
