// A pool from any place: an imported folder, or files of any format.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/ingest/columns/row_ids.h"
#include "stages/ingest/normalize.h"
#include "stages/ingest/pool.h"
#include "stages/kernel/features.h"
#include "storage/pool/mapped_pool.h"

namespace fulcrum::pipeline {

/// InvalidArgument if roles are given for the columns of an imported pool, which has its own.
absl::Status CheckNoColumnsAreNamed(const std::string& path, const ingest::ColumnOptions& columns);

/// Reads a pool into memory; an imported one through its mapping, its checksums compared on the way.
absl::StatusOr<ingest::Pool> LoadAnyPool(const std::string& path, const ingest::PoolOptions& options);

// A pool's features as the kernels read them: the interface between ingest and the numerical stages.

/// Dense or sparse, as the pool has them.
std::unique_ptr<kernel::Features> MakeFeatures(ingest::PoolFeatures features);

// Imported pools that are better left on the disk: those that would take much of the memory there is.

struct MappedSource {
  storage::MappedPool pool;
  ingest::RowIds ids;
  std::unique_ptr<storage::MappedFeatures> features;
  std::vector<std::string> feature_names;  ///< empty if they have none
  RowShare share;                          ///< that the features have
};

/// The normaliser of an imported pool from its stored statistics. FailedPrecondition if the steps need all rows.
absl::StatusOr<ingest::Normalizer> NormalizerOfPool(const storage::MappedPool& pool,
                                                    const std::vector<ingest::NormalizeStep>& steps);

/// Maps the pool at `path` where it is an imported, dense one whose rows, as doubles, would take more than an eighth of
/// `memory_bytes`, and which can be normalised row by row. Nothing if it should be loaded.
absl::StatusOr<std::optional<MappedSource>> MapLargePool(const std::string& path,
                                                         const std::vector<ingest::NormalizeStep>& steps,
                                                         std::size_t memory_bytes);

/// The same for the share of one of several processes. Whether the pool is mapped depends on its size, not on the
/// share, since kernel values of mapped rows are float32.
absl::StatusOr<std::optional<MappedSource>> MapPoolShare(const std::string& path,
                                                         const std::vector<ingest::NormalizeStep>& steps,
                                                         std::size_t memory_bytes, std::size_t rank, std::size_t ranks);

/// The named rows of an imported, dense pool, ascending, as they are in its files.
absl::StatusOr<Matrix<double>> RowsOfPool(const storage::MappedPool& pool, std::span<const RowIndex> rows);

}  // namespace fulcrum::pipeline
