// Parquet files: flat columns and lists, row group after row group, in batches of bounded size.
//
// A Parquet file from outside may be damaged or hostile: everything that parquet throws ends here as a status that
// names the file and the row group, its claims are held against limits, and every batch is checked in full before
// anyone looks at it. Columns are decoded in parallel under oneTBB: Arrow's own threads stay off.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/formats/input_stream.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

absl::StatusOr<std::unique_ptr<TableSource>> OpenParquet(const std::string& path, const TableRequest& request);

}  // namespace fulcrum::ingest

namespace parquet {
class FileMetaData;
namespace arrow {
struct SchemaManifest;
}  // namespace arrow
}  // namespace parquet

namespace fulcrum::ingest {

// How a Parquet file is divided: its row groups, and how many of its rows make a batch of bounded size.
//
// A plain value; thread-safe.

class ParquetLayout {
 public:
  ParquetLayout() = default;
  /// DataLoss for a row group above the limits and for numbers that are impossible.
  static absl::StatusOr<ParquetLayout> Read(const parquet::FileMetaData& metadata, const InputLimits& limits,
                                            const std::string& path);

  std::int64_t rows() const { return row_group_ends_.empty() ? 0 : row_group_ends_.back(); }
  /// So that a batch has a few megabytes, whatever the width of a row.
  std::int64_t RowsPerBatch() const { return rows_per_batch_; }
  /// "row group 3 of 7", the one that a row is in.
  std::string DescribeRowGroupOf(std::int64_t row) const;

 private:
  std::vector<std::int64_t> row_group_ends_;  // rows up to the end of each
  std::int64_t rows_per_batch_ = 1;
};

/// The leaf columns below these top-level fields, ascending.
std::vector<int> LeavesOf(const parquet::arrow::SchemaManifest& manifest, const std::vector<int>& fields);

// Puts columns that were read apart side by side again.
//
// Each reader has some of the columns of the same rows, cut into batches as it likes; the merger asks them in parallel
// and gives batches with all columns. Not thread-safe.

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
