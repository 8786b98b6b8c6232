// Files as streams of bytes: a path or a URI of any file system Arrow was built with, decompressed by
// its ending (.gz, .zst). Streams are not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/io/type_fwd.h"
#include "arrow/util/type_fwd.h"
#include "stages/ingest/input_limits.h"

namespace fulcrum::ingest {

inline constexpr std::int64_t kMostInputMemory = InputLimits{}.max_memory_bytes;

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

/// NotFound where there is no such file.
absl::StatusOr<FileStamp> StampOf(const std::string& path);

/// What the ending of a path says about its compression.
std::optional<arrow::Compression::type> CompressionOfPath(absl::string_view path);

/// The path without the ending that names its compression: "a.csv.gz" is "a.csv".
absl::string_view WithoutCompressionEnding(absl::string_view path);

}  // namespace fulcrum::ingest
