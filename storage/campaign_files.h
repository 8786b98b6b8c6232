// The files next to the database of a campaign: models, and the scores and the batch of each round.
//
// A file is written completely and synced, with its name, before the log mentions it; one that the log does not mention
// is left over from an interrupted round and will be replaced. Stateless; one file is handled by one thread.
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
#include "storage/rules/round_rules.h"
#include "storage/state/campaign_records.h"

namespace fulcrum::storage {

/// Writes the bytes of a model; the result is to be recorded with RecordModel.
absl::StatusOr<RecordModelRequest> WriteModelFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::int64_t trained_on, std::string_view bytes);
/// NotFound or DataLoss if the file is not what was recorded.
absl::StatusOr<std::string> ReadModelFile(const CampaignFolder& folder, const StoredModel& model);

/// Columns of equal length: what a round computed for every row.
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

/// Writes both as Parquet; returns the names for CommitBatchRequest::files.
absl::StatusOr<std::vector<std::string>> WriteRoundFiles(const CampaignFolder& folder, std::int64_t round,
                                                         const RoundScores& scores, const RoundBatch& batch);

/// The batch of a committed round. NotFound or DataLoss if its file is missing or damaged.
absl::StatusOr<RoundBatch> ReadRoundBatch(const CampaignFolder& folder, std::int64_t round);

/// The class that a committed round predicted for each row, in the order of the pool. NotFound or DataLoss if the file
/// is missing or damaged.
absl::StatusOr<std::vector<std::string>> ReadRoundPredictions(const CampaignFolder& folder, std::int64_t round);

/// What a committed round computed for every row, in the order of the pool, without the ids. NotFound or DataLoss if
/// the file is missing or damaged.
absl::StatusOr<RoundScores> ReadRoundScores(const CampaignFolder& folder, std::int64_t round);

// The landmarks of each class in a round, stored next to its scores: a campaign that is opened again continues with
// them, and so selects the batch that it would have selected.
//
// A small text file with "class,row" per line. Stateless; one file is handled by one thread.

/// By class, or by a number below 0 for a group that is not a class.
using LandmarksByClass = std::map<ClassIndex, RowList>;

/// Returns the name for CommitBatchRequest::files.
absl::StatusOr<std::string> WriteLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                              const LandmarksByClass& landmarks);

/// Of a committed round; empty if it had none. DataLoss if the file is damaged: the rows of a class must ascend and be
/// below `pool_rows`.
absl::StatusOr<LandmarksByClass> ReadLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::size_t pool_rows);

}  // namespace fulcrum::storage
