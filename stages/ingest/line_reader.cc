#include "stages/ingest/line_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/buffer.h"
#include "arrow/io/interfaces.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/input_stream.h"

namespace fulcrum::ingest {
namespace {

constexpr std::int64_t kReadBytes = 1 << 20;

std::optional<std::string> EndOfStream(std::string line) {
  if (line.empty()) return std::nullopt;
  return line;
}

}  // namespace

LineReader::LineReader(std::shared_ptr<arrow::io::InputStream> stream, std::string doing)
    : stream_(std::move(stream)), doing_(std::move(doing)) {}

absl::StatusOr<LineReader> LineReader::Open(const std::string& path, std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(auto stream, OpenInput(path, max_memory_bytes));
  return LineReader(std::move(stream), absl::StrCat("cannot read '", path, "'"));
}

absl::StatusOr<std::optional<std::string>> LineReader::Next() {
  std::string line;
  for (;;) {
    if (position_ == block_.size()) {
      FULCRUM_RETURN_IF_ERROR(ReadBlock());
      if (block_.empty()) return EndOfStream(std::move(line));
    }
    SkipSecondHalfOfLineEnd();
    const std::size_t end = std::min(block_.find_first_of("\r\n", position_), block_.size());
    line.append(block_, position_, end - position_);
    position_ = end;
    if (line.size() > kLongestLineBytes) {
      return absl::DataLossError(absl::StrCat(doing_, ": a line is longer than ", kLongestLineBytes,
                                              " bytes; this does not look like a text file"));
    }
    if (end < block_.size()) {
      after_carriage_return_ = block_[position_++] == '\r';
      return line;
    }
  }
}

absl::Status LineReader::ReadBlock() {
  FULCRUM_ASSIGN_OR_RETURN(const auto buffer, FromArrow(stream_->Read(kReadBytes), doing_));
  block_ = buffer->ToString();
  position_ = 0;
  return absl::OkStatus();
}

void LineReader::SkipSecondHalfOfLineEnd() {
  if (after_carriage_return_ && position_ < block_.size() && block_[position_] == '\n') ++position_;
  after_carriage_return_ = false;
}

}  // namespace fulcrum::ingest
