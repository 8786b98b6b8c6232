// Columns of ids and labels as text.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "arrow/type_fwd.h"

namespace fulcrum::ingest {

/// Appends a column's values as text, spaces around them removed: text as it is, integers in decimal.
/// A value that is null or not UTF-8 becomes empty, which callers reject.
/// InvalidArgument for a type that is neither text nor integer, so floating numbers cannot lose digits.
absl::Status AppendTextColumn(const arrow::Array& column, std::vector<std::string>& text);

}  // namespace fulcrum::ingest
