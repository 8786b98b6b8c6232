#include "pipeline/campaign/model/model_tasks.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/io/memory.h"
#include "arrow/ipc/writer.h"
#include "arrow/record_batch.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::pipeline {
namespace {

// A message has at most 4 MiB.
constexpr std::size_t kRowBytesPerMessage = std::size_t{1} << 20;
constexpr std::size_t kMostRowBytes = std::size_t{3} << 20;
constexpr std::int64_t kMostRowsPerMessage = 20'000;
constexpr std::size_t kIdBytes = 16;

void AppendBytes(const void* values, std::size_t bytes, std::string& to) {
  to.append(static_cast<const char*>(values), bytes);
}

std::size_t BytesOf(const v1::FeatureBlock& block) {
  return block.values().size() + block.indices().size() + block.lengths().size();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ModelTaskData>> ModelTaskData::Make(const storage::ModelTask& task,
                                                                         std::shared_ptr<const CampaignPool> pool,
                                                                         const std::vector<std::string>& classes,
                                                                         std::span<const ClassIndex> labels) {
  auto data = std::make_shared<ModelTaskData>();
  data->id = task.id;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kUnlabeled || static_cast<std::int64_t>(row) >= task.rows) continue;
    data->labeled.push_back(static_cast<RowIndex>(row));
    data->labels.push_back(labels[row]);
  }
  FULCRUM_ASSIGN_OR_RETURN(const RawRows rows, RawRows::Open(*pool));
  v1::ModelTask& description = data->description;
  description.set_round(task.round);
  description.set_task_id(task.id);
  for (const std::string& name : classes) description.add_classes(name);
  description.set_rows(task.rows);
  description.set_features(static_cast<std::int64_t>(pool->features().dims()));
  description.set_sparse(rows.sparse());
  description.set_labels(static_cast<std::int64_t>(data->labeled.size()));
  FULCRUM_ASSIGN_OR_RETURN(*description.mutable_pool_id(),
                           ChecksumOfFile(absl::StrCat(pool->folders().front(), "/", storage::kPoolManifestName)));
  data->pool = std::move(pool);
  return std::shared_ptr<const ModelTaskData>(std::move(data));
}

absl::StatusOr<std::shared_ptr<const ModelTaskData>> PublishedModelTask::Find(std::int64_t id) const {
  const std::scoped_lock lock(mutex_);
  if (data_ != nullptr && data_->id == id) return data_;
  return absl::AbortedError(absl::StrCat("the model task ", id, " is over or not ready; acquire a task again"));
}

absl::StatusOr<RawRows> RawRows::Open(const CampaignPool& pool) {
  RawRows rows;
  for (const std::string& folder : pool.folders()) {
    FULCRUM_ASSIGN_OR_RETURN(storage::MappedPool mapped, storage::MappedPool::Open(folder));
    rows.first_rows_.push_back(rows.first_rows_.back() + mapped.rows());
    rows.pools_.push_back(std::move(mapped));
  }
  return rows;
}

absl::Status RawRows::Seek(std::int64_t row) {
  if (batch_ != nullptr && row >= begin_ && row < end_) return absl::OkStatus();
  if (row < 0 || row >= rows()) return absl::InternalError(absl::StrCat("the pool has no row ", row));
  while (row >= first_rows_[pool_ + 1]) ++pool_;
  while (row < first_rows_[pool_]) --pool_;
  const storage::MappedPool& pool = pools_[pool_];
  const std::int64_t inside = row - first_rows_[pool_];
  std::size_t low = 0, high = pool.blocks() - 1;
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    if (pool.FirstRowOf(middle) <= inside) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(batch_, pool.Block(low));
  begin_ = first_rows_[pool_] + pool.FirstRowOf(low);
  end_ = begin_ + batch_->num_rows();
  return absl::OkStatus();
}

absl::Status RawRows::Append(std::int64_t row, v1::FeatureBlock& block) {
  FULCRUM_RETURN_IF_ERROR(Seek(row));
  const storage::PoolShape& shape = pools_[pool_].shape();
  block.set_rows(block.rows() + 1);
  if (!shape.sparse) {
    const std::span<const float> values =
        storage::DenseRows(*batch_, shape).row(static_cast<std::size_t>(row - begin_));
    AppendBytes(values.data(), values.size_bytes(), *block.mutable_values());
    return absl::OkStatus();
  }
  const storage::PoolColumns columns = storage::ColumnsOf(shape);
  const auto& indices = static_cast<const arrow::ListArray&>(*batch_->column(columns.features));
  const auto& values = static_cast<const arrow::ListArray&>(*batch_->column(columns.values));
  const std::int32_t length = indices.value_length(row - begin_);
  const auto bytes = static_cast<std::size_t>(length) * sizeof(std::int32_t);
  AppendBytes(
      static_cast<const arrow::Int32Array&>(*indices.values()).raw_values() + indices.value_offset(row - begin_), bytes,
      *block.mutable_indices());
  AppendBytes(static_cast<const arrow::FloatArray&>(*values.values()).raw_values() + values.value_offset(row - begin_),
              bytes, *block.mutable_values());
  AppendBytes(&length, sizeof(length), *block.mutable_lengths());
  return absl::OkStatus();
}

absl::StatusOr<std::string> RawRows::ToArrow(std::int64_t first, std::int64_t most, std::int64_t& rows) {
  FULCRUM_RETURN_IF_ERROR(Seek(first));
  const storage::PoolColumns columns = storage::ColumnsOf(pools_[pool_].shape());
  std::vector<int> wanted;
  for (const int column : {columns.id, columns.features, columns.values}) {
    if (column >= 0) wanted.push_back(column);
  }
  rows = std::min(end_ - first, most);
  const auto write = [&]() -> arrow::Result<std::string> {
    ARROW_ASSIGN_OR_RAISE(const auto selected, batch_->SelectColumns(wanted));
    ARROW_ASSIGN_OR_RAISE(const auto sink, arrow::io::BufferOutputStream::Create());
    ARROW_ASSIGN_OR_RAISE(const auto writer, arrow::ipc::MakeStreamWriter(sink, selected->schema()));
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*selected->Slice(first - begin_, rows)));
    ARROW_RETURN_NOT_OK(writer->Close());
    ARROW_ASSIGN_OR_RAISE(const auto buffer, sink->Finish());
    return buffer->ToString();
  };
  return ingest::FromArrow(write(), "writing rows of the pool");
}

absl::StatusOr<std::vector<v1::GetModelLabelsResponse>> ModelLabelPages::Next() {
  std::vector<v1::GetModelLabelsResponse> page;
  if (next_ == data_->labeled.size()) return page;
  if (!rows_ && request_.with_features()) {
    FULCRUM_ASSIGN_OR_RETURN(rows_, RawRows::Open(*data_->pool));
  }
  v1::GetModelLabelsResponse& message = page.emplace_back();
  std::size_t bytes = 0;
  for (; next_ < data_->labeled.size() && bytes < kRowBytesPerMessage; ++next_) {
    const RowIndex row = data_->labeled[next_];
    message.add_rows(row);
    message.add_classes(data_->labels[next_]);
    bytes += kIdBytes;
    if (request_.with_ids()) {
      message.add_item_ids(data_->pool->ids().TextOf(row));
      bytes += message.item_ids(message.item_ids_size() - 1).size();
    }
    if (!rows_) continue;
    const std::size_t before = BytesOf(message.features());
    FULCRUM_RETURN_IF_ERROR(rows_->Append(row, *message.mutable_features()));
    bytes += BytesOf(message.features()) - before;
  }
  return page;
}

absl::StatusOr<std::vector<v1::GetModelRowsResponse>> ModelRowPages::Next() {
  std::vector<v1::GetModelRowsResponse> page;
  const std::int64_t end = data_->description.rows();
  if (next_ >= end) return page;
  if (!rows_) {
    FULCRUM_ASSIGN_OR_RETURN(rows_, RawRows::Open(*data_->pool));
  }
  const std::size_t row_bytes =
      rows_->sparse() ? 0 : static_cast<std::size_t>(data_->description.features()) * sizeof(float);
  if (row_bytes > kMostRowBytes) {
    return absl::FailedPreconditionError(absl::StrCat("a row of the pool has ", data_->description.features(),
                                                      " features, which do not fit into a message; import the pool "
                                                      "in a sparse format"));
  }
  v1::GetModelRowsResponse& message = page.emplace_back();
  message.set_first_row(next_);
  if (request_.format() == v1::ROW_FORMAT_ARROW) {
    // Sparse rows may have any number of values: fewer of them, until they fit.
    std::int64_t most =
        std::min<std::int64_t>({end - next_, kMostRowsPerMessage,
                                static_cast<std::int64_t>(kRowBytesPerMessage / (row_bytes + kIdBytes)) + 1});
    std::int64_t rows = 0;
    while (true) {
      FULCRUM_ASSIGN_OR_RETURN(*message.mutable_arrow(), rows_->ToArrow(next_, most, rows));
      if (message.arrow().size() <= kMostRowBytes || rows == 1) break;
      most = rows / 2;
    }
    next_ += rows;
    return page;
  }
  v1::FeatureBlock& block = *message.mutable_plain();
  std::size_t bytes = 0;
  while (next_ < end && block.rows() < kMostRowsPerMessage && bytes < kRowBytesPerMessage) {
    const std::size_t before = BytesOf(block);
    FULCRUM_RETURN_IF_ERROR(rows_->Append(next_, block));
    bytes += BytesOf(block) - before + kIdBytes;
    if (request_.with_ids()) {
      message.add_item_ids(data_->pool->ids().TextOf(static_cast<RowIndex>(next_)));
      bytes += message.item_ids(message.item_ids_size() - 1).size();
    }
    ++next_;
  }
  return page;
}

}  // namespace fulcrum::pipeline
