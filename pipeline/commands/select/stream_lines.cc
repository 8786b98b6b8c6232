#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/commands/select/select_stream.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::size_t kLongestLine = 16 << 20;

}  // namespace

absl::StatusOr<std::vector<StreamLine>> LineReader::Next() {
  std::vector<StreamLine> lines;
  while (lines.empty() && !ended_) {
    FULCRUM_RETURN_IF_ERROR(Read());
    std::size_t begin = 0;
    for (std::size_t end = rest_.find('\n', searched_); end != std::string::npos; end = rest_.find('\n', begin)) {
      Add(rest_.substr(begin, end - begin), lines);
      begin = end + 1;
    }
    rest_.erase(0, begin);
    searched_ = rest_.size();
    if (rest_.size() > kLongestLine) {
      return absl::DataLossError(absl::StrCat("line ", number_ + 1, " of the stream is longer than 16 MiB"));
    }
    if (ended_ && !rest_.empty()) Add(std::exchange(rest_, {}), lines);
  }
  return lines;
}

absl::Status LineReader::Read() {
  const std::size_t before = rest_.size();
  rest_.resize(before + kReadBytes);
  ssize_t got = 0;
  do {
    got = read(descriptor_, rest_.data() + before, kReadBytes);
  } while (got < 0 && errno == EINTR);
  rest_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return absl::DataLossError(absl::StrCat("cannot read the stream: ", std::strerror(errno)));
  ended_ = got == 0;
  return absl::OkStatus();
}

void LineReader::Add(std::string text, std::vector<StreamLine>& lines) {
  ++number_;
  if (!text.empty() && text.back() == '\r') text.pop_back();
  if (!text.empty()) lines.push_back({std::move(text), number_});
}

absl::Status BadStreamLine(std::uint64_t number, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("line ", number, " of the stream: ", what));
}

absl::StatusOr<std::vector<std::string>> SplitStreamLine(const StreamLine& line) {
  std::vector<std::string> values(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.text.size(); ++i) {
    const char letter = line.text[i];
    if (quoted) {
      if (letter != '"') {
        values.back().push_back(letter);
      } else if (i + 1 < line.text.size() && line.text[i + 1] == '"') {
        values.back().push_back(line.text[++i]);
      } else {
        quoted = false;
      }
    } else if (letter == ',') {
      values.emplace_back();
    } else if (letter == '"' && values.back().empty()) {
      quoted = true;
    } else {
      values.back().push_back(letter);
    }
  }
  if (quoted) return BadStreamLine(line.number, "a quote is not closed");
  return values;
}

}  // namespace fulcrum::pipeline
