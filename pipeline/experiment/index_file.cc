#include "pipeline/experiment/index_file.h"

#include <zlib.h>

#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

/// zlib reads a file that is not compressed as it is.
absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (!std::filesystem::exists(path)) return absl::NotFoundError(absl::StrCat("there is no file '", path, "'"));
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return absl::DataLossError(absl::StrCat("cannot read '", path, "'"));
  std::string text;
  std::vector<char> buffer(1 << 16);
  int count = 0;
  while ((count = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  gzclose(file);
  if (count < 0) return absl::DataLossError(absl::StrCat("'", path, "' is damaged: gzip cannot unpack it"));
  return text;
}

absl::StatusOr<RowList> ParseLine(absl::string_view line, std::size_t row_count) {
  RowList rows;
  std::vector<bool> seen(row_count, false);
  for (absl::string_view part : absl::StrSplit(line, ',')) {
    RowIndex row = 0;
    if (!absl::SimpleAtoi(part, &row)) return absl::DataLossError(absl::StrCat("'", part, "' is no row number"));
    if (row >= row_count) {
      return absl::DataLossError(absl::StrCat("row ", row, " does not exist; the data has ", row_count, " rows"));
    }
    if (seen[row]) return absl::DataLossError(absl::StrCat("row ", row, " comes twice"));
    seen[row] = true;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<RowList>> LoadIndexFile(const std::string& path, std::size_t row_count) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  std::vector<RowList> lines;
  std::size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    absl::StatusOr<RowList> rows = ParseLine(line, row_count);
    if (!rows.ok()) {
      return absl::Status(rows.status().code(), absl::StrCat(path, ", line ", number, ": ", rows.status().message()));
    }
    lines.push_back(*std::move(rows));
  }
  return lines;
}

}  // namespace fulcrum::pipeline
