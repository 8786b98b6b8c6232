// Whole Parquet files to and from Arrow tables.
//
// For what fits in memory: results, scores, labels, exports. Pools are read block by block instead. A file from
// outside is hostile: reading it is bounded, checks everything it returns, and answers with an error that names the
// file and the row group, never with an exception. Stateless and thread-safe; one file is handled by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/ingest/formats/input_stream.h"

namespace arrow {
class Table;
}  // namespace arrow

namespace fulcrum::ingest {

struct ParquetWriteOptions {
  std::string codec = "zstd";                 ///< one of ParquetCodecs()
  std::int64_t rows_per_group = 1024 * 1024;  ///< > 0
};

/// The codecs this build can write and read: uncompressed, snappy, gzip, zstd, lz4, brotli as far as Arrow has them.
std::vector<std::string> ParquetCodecs();

/// Writes a table with checksums on its pages. The file appears at `path` whole or not at all; one that is there is
/// replaced.
absl::Status WriteParquetFile(const arrow::Table& table, const std::string& path,
                              const ParquetWriteOptions& options = {});

/// Reads all rows and columns, one chunk a row group, and validates every value.
absl::StatusOr<std::shared_ptr<arrow::Table>> ReadParquetFile(const std::string& path, const InputLimits& limits = {});

}  // namespace fulcrum::ingest
