// What every typed format checks about its columns. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "arrow/type_fwd.h"

namespace fulcrum::ingest {

/// DataLoss where a column's name comes twice or is empty: nobody could say which one is meant.
absl::Status CheckNamesDiffer(const arrow::Schema& schema, const std::string& path);

/// Indices of the fields with these names, in the order of the schema; all for no names. Absent ones are left out.
std::vector<int> ChooseFields(const arrow::Schema& schema, const std::vector<std::string>& names);

}  // namespace fulcrum::ingest
