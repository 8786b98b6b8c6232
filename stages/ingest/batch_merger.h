// Puts columns that were read apart side by side again.
//
// Each reader has some of the columns of the same rows, cut into batches as it likes; the merger asks them in parallel
// and gives batches with all columns. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"

namespace fulcrum::ingest {

class BatchMerger {
 public:
  /// The readers' columns, one after the other, are those of the schema.
  BatchMerger(std::vector<std::unique_ptr<arrow::RecordBatchReader>> readers, std::shared_ptr<arrow::Schema> schema);
  ~BatchMerger();

  /// The next rows, checked in full, or null after the last. `doing` opens the messages. What a reader throws is
  /// caught.
  absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> Next(const std::string& doing);

 private:
  absl::Status Fill(std::size_t reader, const std::string& doing);

  std::vector<std::unique_ptr<arrow::RecordBatchReader>> readers_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> pending_;  // by reader, what has not been given out yet
};

}  // namespace fulcrum::ingest
