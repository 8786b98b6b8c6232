#include "stages/ingest/batch_merger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/no_exceptions.h"

namespace fulcrum::ingest {

BatchMerger::BatchMerger(std::vector<std::unique_ptr<arrow::RecordBatchReader>> readers,
                         std::shared_ptr<arrow::Schema> schema)
    : readers_(std::move(readers)), schema_(std::move(schema)), pending_(readers_.size()) {}

BatchMerger::~BatchMerger() = default;

absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> BatchMerger::Next(const std::string& doing) {
  std::vector<absl::Status> outcomes(readers_.size());
  ParallelForBlocks(readers_.size(), 1,
                    [&](std::size_t reader, std::size_t) { outcomes[reader] = Fill(reader, doing); });
  for (const absl::Status& outcome : outcomes) FULCRUM_RETURN_IF_ERROR(outcome);
  const auto ended = [](const auto& batch) { return batch == nullptr; };
  if (std::all_of(pending_.begin(), pending_.end(), ended)) return std::shared_ptr<arrow::RecordBatch>();
  if (std::any_of(pending_.begin(), pending_.end(), ended)) {
    return absl::DataLossError(absl::StrCat(doing, ": its columns have different numbers of rows"));
  }
  std::int64_t rows = pending_[0]->num_rows();
  for (const auto& batch : pending_) rows = std::min(rows, batch->num_rows());
  arrow::ArrayVector columns;
  for (std::shared_ptr<arrow::RecordBatch>& batch : pending_) {
    const bool whole = batch->num_rows() == rows;
    for (const auto& column : batch->columns()) columns.push_back(whole ? column : column->Slice(0, rows));
    batch = whole ? nullptr : batch->Slice(rows);
  }
  return arrow::RecordBatch::Make(schema_, rows, std::move(columns));
}

absl::Status BatchMerger::Fill(std::size_t reader, const std::string& doing) {
  return WithoutExceptions(doing, [&]() -> absl::Status {
    while (pending_[reader] == nullptr) {
      std::shared_ptr<arrow::RecordBatch> batch;
      FULCRUM_RETURN_IF_ERROR(FromArrow(readers_[reader]->ReadNext(&batch), doing));
      if (batch == nullptr) return absl::OkStatus();
      if (batch->num_rows() == 0) continue;
      FULCRUM_RETURN_IF_ERROR(FromArrow(batch->ValidateFull(), doing));
      pending_[reader] = std::move(batch);
    }
    return absl::OkStatus();
  });
}

}  // namespace fulcrum::ingest
