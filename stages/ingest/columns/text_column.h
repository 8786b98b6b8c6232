// Columns of ids, labels and payloads as text.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "arrow/type_fwd.h"

namespace fulcrum::ingest {

/// Whether AppendTextColumn takes a column of this type.
bool CanBeText(const arrow::DataType& type);

/// Appends a column's values as text, spaces around them removed: text as it is, integers in decimal, truth values as
/// "true" and "false", times and decimals as Arrow prints them, dictionaries by what they stand for. A value that is
/// null or not UTF-8 becomes empty, which callers reject. InvalidArgument for other types, so floating numbers cannot
/// lose digits.
absl::Status AppendTextColumn(const arrow::Array& column, std::vector<std::string>& text);

/// Appends a column of payloads: text and bytes exactly as they are, other types as AppendTextColumn has them; empty
/// where there is none.
absl::Status AppendPayloadColumn(const arrow::Array& column, std::vector<std::string>& payloads);

}  // namespace fulcrum::ingest
