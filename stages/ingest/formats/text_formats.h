// CSV files, read by Arrow: a header line, commas, double quotes where needed, no line breaks inside values.
//
// All columns come as text (arrow::binary). The caller knows what a column means, turns it into numbers and can
// then name the offending value; Arrow's own conversion would give up at the first one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// LIBSVM text as a table: the columns `label` (text), `indices` (lists of integers, from 0) and `values` (lists of
// numbers), one row a line. Lines of a block are parsed in parallel.

// One line of LIBSVM text: "label index:value index:value ... # comment".
//
// Thread-safe.

/// Rows of a block of text, joined.
struct LibsvmRows {
  std::vector<std::string> labels;
  std::vector<std::int32_t> offsets = {0};  ///< one more than rows
  std::vector<std::int32_t> indices;        ///< from 0, one less than in the file
  std::vector<double> values;

  std::size_t rows() const { return labels.size(); }
};

/// Largest index that is read; what is above is a damaged file or a hash that should have been narrower.
inline constexpr std::int32_t kLargestLibsvmIndex = 1 << 24;

/// What is wrong with a line.
struct LibsvmComplaint {
  std::size_t column = 0;  ///< in the line, from 1
  std::string what;
};

/// Appends a row; a line that is blank or only a comment appends none. "qid:" is not a feature and is left out.
/// After a complaint the rows are as before.
std::optional<LibsvmComplaint> AppendLibsvmLine(absl::string_view line, LibsvmRows& rows);

/// Whether a line is a row: not blank and not only a comment.
bool IsLibsvmRow(absl::string_view line);

}  // namespace fulcrum::ingest
