// The files next to the database of a campaign: models, and the scores and the batch of each round.
//
// A file is written completely and synced, with its name, before the log mentions it; one that the log does not mention
// is left over from an interrupted round and will be replaced. Stateless; one file is handled by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/files.h"
#include "stages/core/matrix.h"
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
/// The same, with a megabyte of it in memory at a time: opens the file at its beginning, and returns its size.
absl::StatusOr<std::size_t> OpenModelFile(const CampaignFolder& folder, const StoredModel& model, std::ifstream& file);

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

// The files with what a model process returned for the rows of a pool: class probabilities, or new features.
//
//   32-bit floats, little-endian, row after row, one per class or feature
//   64 bytes of text at the end: "fulcrum predictions 1 ROWS CLASSES", or "fulcrum features 1 ROWS FEATURES", filled up
//   with spaces and a line feed
//
// Written completely and synced before the log mentions it. The size is known at the end only, so that rows are written
// as they arrive. A writer is used by one thread at a time.

enum class ModelFileKind { kPredictions, kFeatures };

class PredictionFileWriter {
 public:
  /// Begins a file of its own for what is returned under a lease; `columns` are classes or features.
  static absl::StatusOr<PredictionFileWriter> Create(const CampaignFolder& folder, std::int64_t round,
                                                     std::int64_t lease, std::size_t columns,
                                                     ModelFileKind kind = ModelFileKind::kPredictions);
  /// Writes no file: finds out only what the checksum of one would be.
  explicit PredictionFileWriter(std::size_t columns, ModelFileKind kind = ModelFileKind::kPredictions)
      : columns_(columns), kind_(kind) {}

  /// Whole rows.
  absl::Status Add(std::span<const float> values);
  std::int64_t rows() const { return static_cast<std::int64_t>(numbers_ / columns_); }
  std::size_t columns() const { return columns_; }
  /// Durable, under its name, when it returns OK.
  absl::Status Finish();
  /// Removes the file, which the log does not mention.
  void Discard();

  /// Relative to the campaign's folder; empty if no file is written.
  const std::string& name() const { return name_; }
  /// After Finish.
  std::string checksum() const { return checksum_.ToText(); }

 private:
  std::size_t columns_;
  ModelFileKind kind_;
  std::size_t numbers_ = 0;
  std::string name_;
  Checksum checksum_;
  std::optional<AtomicFile> file_;
};

struct StoredPredictions {
  std::size_t rows = 0;
  std::size_t classes = 0;
  std::vector<float> probabilities = {};  ///< row after row

  std::span<const float> row(std::size_t index) const {
    return std::span(probabilities).subspan(index * classes, classes);
  }
};

/// NotFound or DataLoss if the file is not what was recorded.
absl::StatusOr<StoredPredictions> ReadPredictionFile(const CampaignFolder& folder, const std::string& name,
                                                     const std::string& checksum);
/// The same of features: as many as the result has columns.
absl::StatusOr<Matrix<double>> ReadFeatureFile(const CampaignFolder& folder, const std::string& name,
                                               const std::string& checksum);
/// Removes features that were returned for rounds before this one, which no round uses any more.
void RemoveFeatureFilesBefore(const CampaignFolder& folder, std::int64_t round);

}  // namespace fulcrum::storage
