// CSV files, read by Arrow: a header line, commas, double quotes where needed, no line breaks inside values.
//
// All columns come as text (arrow::binary). The caller knows what a column means, turns it into numbers and can
// then name the offending value; Arrow's own conversion would give up at the first one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

// The header line of a CSV file, and the lines themselves where a message must name one.

/// Names of the columns, exactly as written. Rejects a file without a header, unnamed columns and a name
/// that comes twice.
absl::StatusOr<std::vector<std::string>> ReadCsvHeader(const std::string& path, std::int64_t max_memory_bytes);

/// Line numbers, counted from 1, of the records with these numbers, counted from 0 with the header as
/// record 0: blank lines are lines but not records. Reads the file up to the last one; OutOfRange where there
/// are fewer.
absl::StatusOr<std::vector<std::uint64_t>> LinesOfRecords(const std::string& path,
                                                          std::span<const std::uint64_t> records,
                                                          std::int64_t max_memory_bytes);

// Lines of CSV as this project writes them: commas, "\n", quotes only where needed.

/// Appends a value, in quotes where it holds a comma, a quote or a line end.
void AppendCsvField(absl::string_view value, std::string& line);

}  // namespace fulcrum::ingest
