// The features of a pool's block as numbers in memory, without a copy. Thread-safe.
#pragma once

#include <cstdint>

#include "arrow/type_fwd.h"
#include "stages/core/matrix.h"
#include "storage/pool/pool_schema.h"

namespace fulcrum::storage {

/// Of a dense pool: a view of the batch's own memory.
MatrixView<const float> DenseRows(const arrow::RecordBatch& batch, const PoolShape& shape);

/// Of the features of one row, dense or sparse.
std::uint64_t FeatureFingerprint(const arrow::RecordBatch& batch, const PoolShape& shape, std::int64_t row);

}  // namespace fulcrum::storage
