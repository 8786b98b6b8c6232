// LIBSVM text as a table: the columns `label` (text), `indices` (lists of integers, from 0) and `values` (lists of
// numbers), one row a line. Lines of a block are parsed in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

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
