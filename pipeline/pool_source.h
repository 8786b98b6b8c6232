// A pool from wherever the user has it: an imported folder, or files of any format.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/ingest/pool.h"

namespace fulcrum::pipeline {

/// Reads a pool into memory; an imported one through its mapping, its checksums compared on the way.
absl::StatusOr<ingest::Pool> LoadAnyPool(const std::string& path, const ingest::PoolOptions& options);

/// The same from several sources, read as one table; an imported pool must stand alone.
absl::StatusOr<ingest::Pool> LoadAnyPool(const std::vector<std::string>& sources, const ingest::PoolOptions& options);

}  // namespace fulcrum::pipeline
