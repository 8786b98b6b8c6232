#include "pipeline/client/text_table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::pipeline {
namespace {

std::size_t Width(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

bool LooksLikeNumber(const std::string& cell) {
  return cell.empty() || cell == "-" || absl::ascii_isdigit(static_cast<unsigned char>(cell[0]));
}

}  // namespace

std::string TextTable(const std::vector<std::vector<std::string>>& rows) {
  const std::size_t columns = rows.empty() ? 0 : rows[0].size();
  std::vector<std::size_t> widths(columns);
  std::vector<bool> right(columns, true);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      widths[column] = std::max(widths[column], Width(rows[row][column]));
      if (row > 0 && !LooksLikeNumber(rows[row][column])) right[column] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < columns; ++column) {
      const std::string space(widths[column] - Width(row[column]), ' ');
      absl::StrAppend(&line, column == 0 ? "" : "  ", right[column] ? space : "", row[column],
                      right[column] ? "" : space);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace fulcrum::pipeline
