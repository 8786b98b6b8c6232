#include "stages/ingest/libsvm_line.h"

#include <charconv>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kLongestShown = 40;

std::string Shown(absl::string_view text) {
  return text.size() <= kLongestShown ? absl::StrCat("'", text, "'")
                                      : absl::StrCat("'", text.substr(0, kLongestShown), "...'");
}

absl::string_view WithoutComment(absl::string_view line) {
  return line.substr(0, line.find('#'));
}

/// The words of a line, one after the other.
class Words {
 public:
  explicit Words(absl::string_view line) : line_(line) {}

  /// Empty after the last.
  absl::string_view Next() {
    while (position_ < line_.size() && absl::ascii_isspace(static_cast<unsigned char>(line_[position_]))) ++position_;
    begin_ = position_;
    while (position_ < line_.size() && !absl::ascii_isspace(static_cast<unsigned char>(line_[position_]))) ++position_;
    return line_.substr(begin_, position_ - begin_);
  }
  /// Of the last word, from 1.
  std::size_t column() const { return begin_ + 1; }

 private:
  absl::string_view line_;
  std::size_t begin_ = 0;
  std::size_t position_ = 0;
};

std::optional<std::string> CheckIndex(absl::string_view text, std::int32_t previous, std::int32_t& index) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error == std::errc::result_out_of_range) return absl::StrCat("the index ", Shown(text), " is too large");
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return absl::StrCat(Shown(text), " is not an index");
  }
  if (index < 1) return absl::StrCat("the index ", index, " is below 1; LIBSVM counts features from 1");
  if (index > kLargestLibsvmIndex) {
    return absl::StrCat("the index ", index, " is above ", kLargestLibsvmIndex, ", the largest that is read");
  }
  if (index <= previous) {
    return absl::StrCat("the index ", index, " comes after ", previous, "; indices must ascend within a line");
  }
  return std::nullopt;
}

std::optional<std::string> AppendElement(absl::string_view word, std::int32_t& previous, LibsvmRows& rows) {
  const std::size_t colon = word.find(':');
  if (colon == absl::string_view::npos) return absl::StrCat(Shown(word), " is not index:value");
  std::int32_t index = 0;
  if (auto complaint = CheckIndex(word.substr(0, colon), previous, index)) return complaint;
  const absl::string_view text = word.substr(colon + 1);
  const std::optional<double> value = ParseNumber(text);
  if (!value) return absl::StrCat("the value ", Shown(text), " of feature ", index, " is not a number");
  if (rows.indices.size() >= std::size_t{std::numeric_limits<std::int32_t>::max()}) return "there is too much text";
  rows.indices.push_back(index - 1);
  rows.values.push_back(*value);
  previous = index;
  return std::nullopt;
}

}  // namespace

bool IsLibsvmRow(absl::string_view line) {
  return !absl::StripAsciiWhitespace(WithoutComment(line)).empty();
}

std::optional<LibsvmComplaint> AppendLibsvmLine(absl::string_view line, LibsvmRows& rows) {
  Words words(WithoutComment(line));
  const absl::string_view label = words.Next();
  if (label.empty()) return std::nullopt;
  if (absl::StrContains(label, ":")) {
    return LibsvmComplaint{words.column(), absl::StrCat("the line begins with ", Shown(label), ", not with a label")};
  }
  const std::size_t before = rows.indices.size();
  std::int32_t previous = 0;
  for (absl::string_view word = words.Next(); !word.empty(); word = words.Next()) {
    if (absl::StartsWith(word, "qid:")) continue;
    if (auto complaint = AppendElement(word, previous, rows)) {
      rows.indices.resize(before);
      rows.values.resize(before);
      return LibsvmComplaint{words.column(), *std::move(complaint)};
    }
  }
  // "+1" and "1" are one class.
  rows.labels.emplace_back(label.front() == '+' && ParseNumber(label) ? label.substr(1) : label);
  rows.offsets.push_back(static_cast<std::int32_t>(rows.indices.size()));
  return std::nullopt;
}

}  // namespace fulcrum::ingest
