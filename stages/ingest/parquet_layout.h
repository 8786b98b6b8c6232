// How a Parquet file is divided: its row groups, and how many of its rows make a batch of bounded size.
//
// A plain value; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/ingest/input_limits.h"

namespace parquet {
class FileMetaData;
namespace arrow {
struct SchemaManifest;
}  // namespace arrow
}  // namespace parquet

namespace fulcrum::ingest {

class ParquetLayout {
 public:
  ParquetLayout() = default;
  /// ResourceExhausted for a row group above the limits, DataLoss for numbers that cannot be.
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

}  // namespace fulcrum::ingest
