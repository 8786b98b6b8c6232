// Files as streams of bytes: a path or a URI of any file system Arrow was built with, decompressed by
// its ending (.gz, .zst). Streams are not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/io/type_fwd.h"
#include "arrow/type_fwd.h"
#include "arrow/util/type_fwd.h"

namespace fulcrum::ingest {

// How much a file from outside may ask for.
//
// A hostile or damaged file claims what it likes; more than this is refused before memory is spent on it.

struct InputLimits {
  int max_columns = 100'000;
  /// What a row group or a record batch claims to unpack to.
  std::int64_t max_row_group_bytes = std::int64_t{4} << 30;
  /// One id, label or payload.
  std::int64_t max_text_bytes = std::int64_t{16} << 20;
  /// What a reader may allocate at a time, the rows it gives included; what other readers hold counts too.
  std::int64_t max_memory_bytes = std::int64_t{16} << 30;
  /// What a batch of rows should have, where the format leaves a choice.
  std::int64_t batch_bytes = std::int64_t{16} << 20;
};

/// A pool that refuses to hold more than `limit` bytes at a time. Buffers point back to the pool they came from, so it
/// lives as long as the process; there is one for each limit. Thread-safe.
arrow::MemoryPool* CappedPool(std::int64_t limit);

/// DataLoss if there are more columns than the limit.
absl::Status CheckColumnCount(std::int64_t columns, const InputLimits& limits, absl::string_view path);

/// DataLoss for a row group of a Parquet file that claims a negative size, or one above the limit.
absl::Status CheckRowGroupBytes(std::int64_t bytes, int group, const InputLimits& limits, const std::string& path);

inline constexpr std::int64_t kMostInputMemory = InputLimits{}.max_memory_bytes;

/// Whether a path names an open descriptor of this process (/dev/stdin, or what a shell makes of <(...)) and so says
/// nothing about the format. What comes through a pipe is copied into a temporary file when it is first opened, so that
/// it can be read more than once like any other file.
bool IsDescriptorPath(absl::string_view path);

/// The first bytes of a file, fewer if it is shorter.
absl::StatusOr<std::string> FirstBytes(const std::string& path, std::int64_t count);

/// Opens a file for reading from its beginning. What a read allocates, all readers of the same limit together, stays
/// below it.
absl::StatusOr<std::shared_ptr<arrow::io::InputStream>> OpenInput(const std::string& path,
                                                                  std::int64_t max_memory_bytes = kMostInputMemory);

/// Opens a file whose format needs to jump about in it; such a file cannot be compressed as a whole.
absl::StatusOr<std::shared_ptr<arrow::io::RandomAccessFile>> OpenRandomAccess(
    const std::string& path, std::int64_t max_memory_bytes = kMostInputMemory);

/// What tells whether a file has changed.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t modified_ns = 0;
  bool operator==(const FileStamp&) const = default;
};

/// NotFound if there is no such file.
absl::StatusOr<FileStamp> StampOf(const std::string& path);

/// InvalidArgument for URIs of other schemes than file://, which this build of Arrow cannot read.
absl::Status CheckScheme(const std::string& path);

/// What the ending of a path says about its compression.
std::optional<arrow::Compression::type> CompressionOfPath(absl::string_view path);

/// The path without the ending that names its compression: "a.csv.gz" is "a.csv".
absl::string_view WithoutCompressionEnding(absl::string_view path);

// Text files line by line: "\n", "\r\n" and "\r" end a line, as in Arrow's CSV parser. Not thread-safe.

class LineReader {
 public:
  /// A "line" longer than this is a file that is no text, not a table with very many columns.
  static constexpr std::size_t kLongestLineBytes = std::size_t{256} << 20;

  /// A damaged compressed file asks for more and more memory without giving a byte; `max_memory_bytes` ends that.
  static absl::StatusOr<LineReader> Open(const std::string& path, std::int64_t max_memory_bytes);

  /// The next line without its end, or nothing after the last.
  absl::StatusOr<std::optional<std::string>> Next();

 private:
  LineReader(std::shared_ptr<arrow::io::InputStream> stream, std::string doing);
  absl::Status ReadBlock();
  void SkipSecondHalfOfLineEnd();

  std::shared_ptr<arrow::io::InputStream> stream_;
  std::string doing_;
  std::string block_;
  std::size_t position_ = 0;
  bool after_carriage_return_ = false;
};

}  // namespace fulcrum::ingest
