#include "stages/ingest/csv_header.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "arrow/csv/options.h"
#include "arrow/csv/parser.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/line_reader.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::ingest {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Arrow's own parser splits the line, so that quotes mean the same here as in the rows.
absl::StatusOr<std::vector<std::string>> SplitHeader(const std::string& line, const std::string& path) {
  arrow::csv::BlockParser parser(arrow::csv::ParseOptions::Defaults(), /*num_cols=*/-1, /*first_row=*/1,
                                 /*max_num_rows=*/1);
  const std::string doing = absl::StrCat("cannot read the header line of '", path, "'");
  std::uint32_t parsed_size = 0;
  FULCRUM_RETURN_IF_ERROR(FromArrow(parser.ParseFinal(line, &parsed_size), doing));
  std::vector<std::string> names;
  FULCRUM_RETURN_IF_ERROR(FromArrow(parser.VisitLastRow([&](const std::uint8_t* data, std::uint32_t size, bool) {
    names.emplace_back(reinterpret_cast<const char*>(data), size);
    return arrow::Status::OK();
  }),
                                    doing));
  return names;
}

absl::Status CheckNames(const std::vector<std::string>& names, const std::string& path) {
  if (std::all_of(names.begin(), names.end(), [](const std::string& name) { return ParseNumber(name).has_value(); })) {
    return absl::DataLossError(absl::StrCat(path, ", line 1: the file has no header, its first line is all numbers ('",
                                            names.front(), "', ...); add a first line with the names of the columns"));
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const absl::string_view name = absl::StripAsciiWhitespace(names[i]);
    if (name.empty()) {
      return absl::DataLossError(absl::StrCat(path, ", line 1: column ", i + 1,
                                              " has no name; name it 'id' if it identifies the rows, "
                                              "otherwise give it a name of its own or remove it"));
    }
    if (!seen.insert(name).second) {
      return absl::DataLossError(
          absl::StrCat(path, ", line 1: the column '", name, "' comes twice; rename or remove one of them"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const std::string& path, std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(path, max_memory_bytes));
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(std::optional<std::string> line, lines.Next());
    if (!line) {
      return absl::DataLossError(absl::StrCat("'", path,
                                              "' is empty; it needs a header line with the names of the "
                                              "columns, and a line for each row"));
    }
    if (absl::StartsWith(*line, kByteOrderMark)) line->erase(0, kByteOrderMark.size());
    if (line->empty()) continue;
    FULCRUM_ASSIGN_OR_RETURN(std::vector<std::string> names, SplitHeader(*line, path));
    FULCRUM_RETURN_IF_ERROR(CheckNames(names, path));
    return names;
  }
}

absl::StatusOr<std::vector<std::uint64_t>> LinesOfRecords(const std::string& path,
                                                          std::span<const std::uint64_t> records,
                                                          std::int64_t max_memory_bytes) {
  FULCRUM_ASSIGN_OR_RETURN(LineReader lines, LineReader::Open(path, max_memory_bytes));
  absl::flat_hash_map<std::uint64_t, std::uint64_t> line_of_record;
  for (std::uint64_t record : records) line_of_record[record] = 0;
  std::size_t found = 0;
  std::uint64_t line_number = 0;
  for (std::uint64_t record = 0; found < line_of_record.size();) {
    FULCRUM_ASSIGN_OR_RETURN(const std::optional<std::string> line, lines.Next());
    if (!line) return absl::OutOfRangeError(absl::StrCat("'", path, "' has only ", record, " records"));
    ++line_number;
    if (line->empty()) continue;
    if (const auto wanted = line_of_record.find(record++); wanted != line_of_record.end()) {
      wanted->second = line_number;
      ++found;
    }
  }
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t record : records) numbers.push_back(line_of_record[record]);
  return numbers;
}

}  // namespace fulcrum::ingest
