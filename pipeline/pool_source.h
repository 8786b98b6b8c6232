// A pool from wherever the user has it: an imported folder, or files of any format.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/ingest/pool.h"

namespace fulcrum::pipeline {

/// InvalidArgument where somebody says what the columns of the imported pool at `path` mean.
absl::Status CheckNoColumnsAreNamed(const std::string& path, const ingest::ColumnOptions& columns);

/// Reads a pool into memory; an imported one through its mapping, its checksums compared on the way.
absl::StatusOr<ingest::Pool> LoadAnyPool(const std::string& path, const ingest::PoolOptions& options);

}  // namespace fulcrum::pipeline
