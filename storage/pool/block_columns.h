// The columns of a pool's block: made from a source's batch, and looked at row by row. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "arrow/type_fwd.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/formats/input_stream.h"
#include "storage/pool/feature_statistics.h"
#include "storage/pool/pool_block.h"
#include "storage/pool/pool_schema.h"

namespace fulcrum::storage {

/// All rows of the batch, bad ones too, in the columns of the pool's schema; the complaints go to `rejected`.
absl::StatusOr<arrow::ArrayVector> MakeBlockColumns(const arrow::RecordBatch& batch, const ingest::ColumnRoles& roles,
                                                    const ingest::InputLimits& limits,
                                                    std::vector<RejectedRow>& rejected);

FeatureStatistics StatisticsOf(const arrow::RecordBatch& batch, const PoolShape& shape);

std::vector<std::uint64_t> IdFingerprints(const arrow::RecordBatch& batch, const PoolShape& shape);
/// Of everything but the id.
std::vector<std::uint64_t> ContentFingerprints(const arrow::RecordBatch& batch, const PoolShape& shape);

}  // namespace fulcrum::storage
