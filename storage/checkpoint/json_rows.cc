#include "storage/checkpoint/json_rows.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "stages/core/number_text.h"

namespace fulcrum::storage {

JsonRows& JsonRows::Row() {
  if (in_row_) text_ += ']';
  if (text_.size() > 1) text_ += ',';
  text_ += '[';
  in_row_ = true;
  return *this;
}

void JsonRows::Separate() {
  if (text_.back() != '[') text_ += ',';
}

JsonRows& JsonRows::Add(absl::string_view text) {
  Separate();
  text_ += '"';
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') {
      text_ += '\\';
      text_ += byte;
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      absl::StrAppendFormat(&text_, "\\u%04x", static_cast<int>(byte));
    } else {
      text_ += byte;
    }
  }
  text_ += '"';
  return *this;
}

JsonRows& JsonRows::Add(std::int64_t number) {
  Separate();
  absl::StrAppend(&text_, number);
  return *this;
}

JsonRows& JsonRows::Add(double number) {
  Separate();
  AppendNumber(number, text_);
  return *this;
}

std::string JsonRows::Take() {
  if (in_row_) text_ += ']';
  text_ += ']';
  return std::move(text_);
}

absl::StatusOr<std::vector<std::vector<std::string>>> JsonRows::Parse(absl::string_view text) {
  const absl::Status damaged = absl::DataLossError("a list is not what was written");
  std::vector<std::vector<std::string>> rows;
  std::size_t at = 0;
  const auto next = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto take = [&](char wanted) { return next() == wanted && ++at > 0; };
  const auto take_text = [&](std::string& cell) {
    while (at < text.size() && text[at] != '"') {
      if (text[at] != '\\') {
        cell += text[at++];
      } else if (at + 5 < text.size() && text[at + 1] == 'u') {
        unsigned code = 0;
        if (!absl::SimpleHexAtoi(text.substr(at + 2, 4), &code)) return false;
        cell += static_cast<char>(code);
        at += 6;
      } else if (at + 1 < text.size()) {
        cell += text[at + 1];
        at += 2;
      } else {
        return false;
      }
    }
    return take('"');
  };
  if (!take('[')) return damaged;
  while (next() == '[' || (!rows.empty() && take(','))) {
    if (!take('[')) return damaged;
    std::vector<std::string>& cells = rows.emplace_back();
    while (next() != ']') {
      if (!cells.empty() && !take(',')) return damaged;
      std::string& cell = cells.emplace_back();
      if (take('"')) {
        if (!take_text(cell)) return damaged;
      } else {
        while (next() != ',' && next() != ']' && next() != '\0') cell += text[at++];
        if (cell.empty()) return damaged;
      }
    }
    ++at;
  }
  if (!take(']') || at != text.size()) return damaged;
  return rows;
}

}  // namespace fulcrum::storage
