// Files with one line a run and row numbers from 0 on it, separated by commas: published splits and starts.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"

namespace fulcrum::pipeline {

/// Reads such a file, gzipped or not. NotFound where it is absent; DataLoss where a number is none, is not below
/// `row_count` or comes twice on its line.
absl::StatusOr<std::vector<RowList>> LoadIndexFile(const std::string& path, std::size_t row_count);

}  // namespace fulcrum::pipeline
