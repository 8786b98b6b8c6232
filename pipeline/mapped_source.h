// Imported pools that are better left on the disk: those that would take much of the memory there is.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/row_ids.h"
#include "storage/pool/mapped_features.h"

namespace fulcrum::pipeline {

struct MappedSource {
  storage::MappedPool pool;
  ingest::RowIds ids;
  std::unique_ptr<storage::MappedFeatures> features;
  std::vector<std::string> feature_names;  ///< empty where they have none
};

/// Maps the pool at `path` where it is an imported, dense one whose rows, as doubles, would take more than an eighth of
/// `memory_bytes`, and which can be normalised row by row. Nothing where it should be loaded.
absl::StatusOr<std::optional<MappedSource>> MapLargePool(const std::string& path,
                                                         const std::vector<ingest::NormalizeStep>& steps,
                                                         std::size_t memory_bytes);

}  // namespace fulcrum::pipeline
