// Converts rows for a pool: from a batch as a reader returns it to a block as the pool stores it.
//
// Functions of their arguments; thread-safe, so blocks can be made in parallel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/input_stream.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {

/// A row that was rejected.
struct RejectedRow {
  std::uint64_t row = 0;  ///< in the batch
  std::string id;         ///< empty if there is none
  std::string column;
  std::string reason;
};

struct PoolBlock {
  std::shared_ptr<arrow::RecordBatch> batch;  ///< with SchemaOf(shape)
  /// By row, of its id and of everything else; empty if there are no ids.
  std::vector<std::uint64_t> id_fingerprints;
  std::vector<std::uint64_t> content_fingerprints;
  /// By row, which one of the source's batch it is.
  std::vector<std::uint32_t> source_rows;
  FeatureStatistics statistics;
  std::uint64_t checksum = 0;
};

struct BuiltBlock {
  PoolBlock block;
  std::vector<RejectedRow> rejected;  ///< ascending by row
};

/// The shape that a table with these roles has in a pool. The widths of lists must be known.
PoolShape ShapeFor(const ingest::ColumnRoles& roles);

/// Turns a batch into a block, leaving out rows with a null, NaN or infinite feature, a list of the wrong length, a
/// value that float32 cannot hold, no id, or text above the limit. Errors are those of a whole column (its type).
absl::StatusOr<BuiltBlock> BuildBlock(const arrow::RecordBatch& batch, const ingest::ColumnRoles& roles,
                                      const ingest::InputLimits& limits);

/// The block with only these rows (ascending positions in it).
absl::StatusOr<PoolBlock> KeepRows(const PoolBlock& block, const std::vector<std::uint32_t>& rows);

/// A block of a batch that is in a pool, with its fingerprints only.
void FingerprintRows(const arrow::RecordBatch& batch, const PoolShape& shape, PoolBlock& block);

// The features of a pool's block as numbers in memory, without a copy. Thread-safe.

/// Of a dense pool: a view of the batch's own memory.
MatrixView<const float> DenseRows(const arrow::RecordBatch& batch, const PoolShape& shape);

/// Of the features of one row, dense or sparse.
std::uint64_t FeatureFingerprint(const arrow::RecordBatch& batch, const PoolShape& shape, std::int64_t row);

}  // namespace fulcrum::storage
