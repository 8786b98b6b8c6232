// Tables to files, in the format that the ending of the path names. Not thread-safe.
//
// A file appears when it is complete, or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrow/io/type_fwd.h"
#include "arrow/type_fwd.h"
#include "stages/core/files.h"
#include "stages/ingest/formats/input_stream.h"

namespace arrow {
class Table;
}  // namespace arrow

namespace fulcrum::ingest {

enum class TableFormat { kCsv, kParquet, kIpcFile, kIpcStream, kLibsvm };

/// By the ending, without that of a compression. InvalidArgument for an ending that no format has, and for a compressed
/// file of a format that is read from both ends.
absl::StatusOr<TableFormat> FormatOf(const std::string& path);

class TableWriter {
 public:
  virtual ~TableWriter() = default;
  virtual absl::Status Write(const arrow::RecordBatch& batch) = 0;
  /// After the last batch; the bytes are complete then.
  virtual absl::Status Finish() = 0;
};

/// Writes batches of this schema to a stream, which must outlive it. CSV takes columns of numbers, text and truth
/// values; LIBSVM what ColumnRoles takes. DataLoss for columns that the format cannot have. Arrow's writers allocate at
/// most `max_memory_bytes`, together with all readers of the same limit.
absl::StatusOr<std::unique_ptr<TableWriter>> MakeTableWriter(TableFormat format, std::shared_ptr<arrow::Schema> schema,
                                                             arrow::io::OutputStream& stream,
                                                             std::int64_t max_memory_bytes = kMostInputMemory);

/// A whole table as the bytes of a file.
absl::StatusOr<std::string> SerializeTable(TableFormat format, const arrow::Table& table);

/// A stream into a file that is put in its place by `Commit`, compressed if the path's ending says so.
class TableFile {
 public:
  static absl::StatusOr<std::unique_ptr<TableFile>> Create(const std::string& path);
  arrow::io::OutputStream& stream() { return *stream_; }
  absl::Status Commit();

 private:
  explicit TableFile(AtomicFile file) : file_(std::move(file)) {}
  AtomicFile file_;
  std::shared_ptr<arrow::io::OutputStream> stream_;  // writes to file_
};

// Tables as text: CSV and LIBSVM. Not thread-safe.

/// A header and one line per row. Numbers are as short as they can be to read back the same; null is empty. A
/// fixed-size list becomes as many columns: "embedding[0]", ...
absl::StatusOr<std::unique_ptr<TableWriter>> MakeCsvWriter(const arrow::Schema& schema,
                                                           arrow::io::OutputStream& stream);

/// "label index:value ...", zeros left out, 0 for a missing label. The format has no ids.
absl::StatusOr<std::unique_ptr<TableWriter>> MakeLibsvmWriter(const arrow::Schema& schema,
                                                              arrow::io::OutputStream& stream);

// A table from one format to another, what is text becoming what it reads as.
//
// CSV has only text: a first pass over the rows finds the columns that are integers, or numbers, throughout. Formats
// with lists know their lengths row by row, CSV needs them in its header: a first pass finds those too.

/// Reads `sources` as one table and writes it to `path`; the endings tell the formats. The rows that were written.
/// `limits.max_memory_bytes` bounds reading, converting and writing together.
absl::StatusOr<std::int64_t> ConvertTable(const std::vector<std::string>& sources, const std::string& path,
                                          const InputLimits& limits = {});

// Whole Parquet files to and from Arrow tables.
//
// For what fits in memory: results, scores, labels, exports. Pools are read block by block instead. A file from
// outside is hostile: reading it is bounded, checks everything it returns, and answers with an error that names the
// file and the row group, never with an exception. Stateless and thread-safe; one file is handled by one thread.

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
