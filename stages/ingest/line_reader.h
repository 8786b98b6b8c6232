// Text files line by line: "\n", "\r\n" and "\r" end a line, as in Arrow's CSV parser. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "arrow/io/type_fwd.h"

namespace fulcrum::ingest {

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
