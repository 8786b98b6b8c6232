// Files as streams of bytes: a path or a URI of any file system Arrow was built with, decompressed by
// its ending (.gz, .zst). Streams are not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "arrow/io/type_fwd.h"

namespace fulcrum::ingest {

/// Opens a file for reading from its beginning.
absl::StatusOr<std::shared_ptr<arrow::io::InputStream>> OpenInput(const std::string& path);

/// Opens a file whose format needs to jump about in it; such a file cannot be compressed as a whole.
absl::StatusOr<std::shared_ptr<arrow::io::RandomAccessFile>> OpenRandomAccess(const std::string& path);

/// The path without the ending that names its compression: "a.csv.gz" is "a.csv".
absl::string_view WithoutCompressionEnding(absl::string_view path);

}  // namespace fulcrum::ingest
