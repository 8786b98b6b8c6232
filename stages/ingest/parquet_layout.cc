#include "stages/ingest/parquet_layout.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "parquet/arrow/schema.h"
#include "parquet/metadata.h"

namespace fulcrum::ingest {
namespace {

constexpr std::int64_t kMostRowsPerBatch = 65536;
constexpr std::int64_t kFewestRowsPerBatch = 16;

void CollectLeaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.is_leaf()) leaves.push_back(field.column_index);
  for (const parquet::arrow::SchemaField& child : field.children) CollectLeaves(child, leaves);
}

}  // namespace

absl::StatusOr<ParquetLayout> ParquetLayout::Read(const parquet::FileMetaData& metadata, const InputLimits& limits,
                                                  const std::string& path) {
  ParquetLayout layout;
  std::int64_t rows = 0, widest_row = 1;
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    const auto description = metadata.RowGroup(group);
    const std::int64_t bytes = description->total_byte_size(), count = description->num_rows();
    if (bytes < 0 || bytes > limits.max_row_group_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(path, ", row group ", group, ", claims to hold ", bytes,
                                                       " bytes; at most ", limits.max_row_group_bytes,
                                                       " are read. Write the file with smaller row groups."));
    }
    if (count < 0 || count > std::numeric_limits<std::int64_t>::max() - rows) {
      return absl::DataLossError(absl::StrCat(path, ", row group ", group, ", claims to have ", count, " rows"));
    }
    rows += count;
    layout.row_group_ends_.push_back(rows);
    if (count > 0) widest_row = std::max(widest_row, bytes / count);
  }
  layout.rows_per_batch_ = std::clamp(limits.batch_bytes / widest_row, kFewestRowsPerBatch, kMostRowsPerBatch);
  return layout;
}

std::string ParquetLayout::DescribeRowGroupOf(std::int64_t row) const {
  const auto found = std::upper_bound(row_group_ends_.begin(), row_group_ends_.end(), row);
  // After the last row it is the last group that was read.
  const auto group = std::min<std::ptrdiff_t>(found - row_group_ends_.begin(),
                                              static_cast<std::ptrdiff_t>(row_group_ends_.size()) - 1);
  return absl::StrCat("row group ", std::max<std::ptrdiff_t>(group, 0), " of ", row_group_ends_.size());
}

std::vector<int> LeavesOf(const parquet::arrow::SchemaManifest& manifest, const std::vector<int>& fields) {
  std::vector<int> leaves;
  for (int field : fields) CollectLeaves(manifest.schema_fields[static_cast<std::size_t>(field)], leaves);
  return leaves;
}

}  // namespace fulcrum::ingest
