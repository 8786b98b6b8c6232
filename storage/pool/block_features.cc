#include "storage/pool/block_features.h"

#include "arrow/array.h"
#include "arrow/record_batch.h"
#include "storage/pool/batch_checksum.h"

namespace fulcrum::storage {

MatrixView<const float> DenseRows(const arrow::RecordBatch& batch, const PoolShape& shape) {
  const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*batch.column(ColumnsOf(shape).features));
  const float* values = static_cast<const arrow::FloatArray&>(*lists.values()).raw_values();
  return {values + lists.value_offset(0), static_cast<std::size_t>(batch.num_rows()),
          static_cast<std::size_t>(shape.features)};
}

std::uint64_t FeatureFingerprint(const arrow::RecordBatch& batch, const PoolShape& shape, std::int64_t row) {
  if (!shape.sparse) {
    const auto values = DenseRows(batch, shape).row(static_cast<std::size_t>(row));
    return Fingerprint(values.data(), values.size_bytes());
  }
  const PoolColumns columns = ColumnsOf(shape);
  const auto& indices = static_cast<const arrow::ListArray&>(*batch.column(columns.features));
  const auto& values = static_cast<const arrow::ListArray&>(*batch.column(columns.values));
  const auto count = static_cast<std::size_t>(indices.value_length(row));
  const std::int32_t* index = static_cast<const arrow::Int32Array&>(*indices.values()).raw_values();
  const float* value = static_cast<const arrow::FloatArray&>(*values.values()).raw_values();
  const std::uint64_t seed = Fingerprint(index + indices.value_offset(row), count * sizeof(*index));
  return Fingerprint(value + values.value_offset(row), count * sizeof(*value), seed);
}

}  // namespace fulcrum::storage
