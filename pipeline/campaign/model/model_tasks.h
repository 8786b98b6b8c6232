// What model processes read of a campaign, the task of the round with its labels and the rows of the pool, and what
// they return, the predictions.
//
// Rows are as they are in the pool's files, whatever the rounds make of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/model_service.pb.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "stages/core/rows.h"
#include "storage/campaign_files.h"
#include "storage/pool/mapped_pool.h"
#include "storage/rules/model_rules.h"
#include "storage/state/tables.h"

namespace arrow {
class RecordBatch;
}

namespace fulcrum::pipeline {

class Campaign;
struct CampaignPlan;

/// A task as it was when it was opened, or when the daemon was started. Immutable.
struct ModelTaskData {
  static absl::StatusOr<std::shared_ptr<const ModelTaskData>> Make(const storage::ModelTask& task,
                                                                   std::shared_ptr<const CampaignPool> pool,
                                                                   const std::vector<std::string>& classes,
                                                                   std::span<const ClassIndex> labels);

  std::int64_t id = 0;
  std::shared_ptr<const CampaignPool> pool = {};
  RowList labeled = {};                 ///< ascending
  std::vector<ClassIndex> labels = {};  ///< of those
  v1::ModelTask description = {};       ///< without a lease
};

/// The one task of a campaign that can be handed out. Thread-safe.
class PublishedModelTask {
 public:
  void Publish(std::shared_ptr<const ModelTaskData> data) {
    const std::scoped_lock lock(mutex_);
    data_ = std::move(data);
  }
  /// Aborted if the task is over, or not published yet.
  absl::StatusOr<std::shared_ptr<const ModelTaskData>> Find(std::int64_t id) const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const ModelTaskData> data_;
};

/// Rows of a pool as they are in its files. Used by one thread at a time.
class RawRows {
 public:
  static absl::StatusOr<RawRows> Open(const CampaignPool& pool);

  bool sparse() const { return pools_[0].shape().sparse; }
  std::int64_t rows() const { return first_rows_.back(); }
  /// Puts a row behind those of a block of features.
  absl::Status Append(std::int64_t row, v1::FeatureBlock& block);
  /// An Arrow IPC stream of rows from `first` on, as many as are in one block of the pool, at most `most`. Sets how
  /// many they are.
  absl::StatusOr<std::string> ToArrow(std::int64_t first, std::int64_t most, std::int64_t& rows);

 private:
  /// Makes the block with this row the current one.
  absl::Status Seek(std::int64_t row);

  std::vector<storage::MappedPool> pools_;
  std::vector<std::int64_t> first_rows_ = {0};  // by pool, and one more
  // The current block.
  std::size_t pool_ = 0;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::int64_t begin_ = 0, end_ = 0;  // its rows
};

/// The labels of a task, a message at a time. Used by one thread at a time.
class ModelLabelPages {
 public:
  ModelLabelPages(std::shared_ptr<const ModelTaskData> data, const v1::GetModelLabelsRequest& request)
      : data_(std::move(data)), request_(request) {}
  /// Empty at the end.
  absl::StatusOr<std::vector<v1::GetModelLabelsResponse>> Next();

 private:
  const std::shared_ptr<const ModelTaskData> data_;
  const v1::GetModelLabelsRequest request_;
  std::optional<RawRows> rows_;
  std::size_t next_ = 0;
};

/// The rows of a task, a message at a time. Used by one thread at a time.
class ModelRowPages {
 public:
  ModelRowPages(std::shared_ptr<const ModelTaskData> data, const v1::GetModelRowsRequest& request)
      : data_(std::move(data)), request_(request), next_(request.first_row()) {}
  /// Empty at the end.
  absl::StatusOr<std::vector<v1::GetModelRowsResponse>> Next();

 private:
  const std::shared_ptr<const ModelTaskData> data_;
  const v1::GetModelRowsRequest request_;
  std::optional<RawRows> rows_;
  std::int64_t next_;
};

// Takes in the predictions of a model process, and new features if it returns some, part by part: checks them, and
// makes them durable.
//
// What is wrong with them is said with the row and the class. Nothing is stored before all rows have arrived and are
// right. Used by one thread at a time.

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
  /// New features of rows, in their order, as a block of dense rows.
  absl::Status AddPlainFeatures(const v1::FeatureBlock& block);
  /// The same as an Arrow IPC stream with a column of lists.
  absl::Status AddArrowFeatures(const std::string& bytes);
  /// Everything has arrived: on disk when it returns OK.
  absl::StatusOr<storage::StorePredictionsAnswer> Finish();

 private:
  PredictionUpload(std::shared_ptr<Campaign> campaign, storage::ModelLeaseRequest lease);
  absl::Status Add(std::span<const float> rows);
  absl::Status AddFeatures(std::span<const float> rows, std::size_t width);
  /// Opens the file, now that the number of features is known.
  absl::Status BeginFeatures(std::size_t width);
  absl::Status FinishFeatures();
  /// Calls `use` with each batch of a stream, whose ids are checked: they name the rows from `first` on.
  absl::Status ReadArrow(const std::string& bytes, const std::function<std::int64_t()>& first,
                         const std::function<absl::Status(const arrow::RecordBatch&)>& use) const;

  const std::shared_ptr<Campaign> campaign_;
  const std::shared_ptr<const CampaignPlan> plan_;
  const storage::ModelLeaseRequest lease_;
  std::optional<storage::ModelTask> task_;  // nothing if it is over: the request may be a repeat
  std::optional<storage::PredictionFileWriter> writer_;
  std::optional<storage::PredictionFileWriter> features_;  // nothing if none were returned
  double largest_length_ = 0;                              // squared, of the features of a row
  std::int64_t longest_row_ = 0;                           // that has it
  bool stored_ = false;
};

}  // namespace fulcrum::pipeline
