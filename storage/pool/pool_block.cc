#include "storage/pool/pool_block.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/builder.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "storage/pool/batch_checksum.h"
#include "storage/pool/block_columns.h"

namespace fulcrum::storage {
namespace {

constexpr char kDoing[] = "cannot make a block of the pool";

/// Rows [begin, end) that are kept, in runs.
arrow::Result<std::shared_ptr<arrow::Array>> TakeRows(const arrow::Array& array,
                                                      const std::vector<std::uint32_t>& rows) {
  std::unique_ptr<arrow::ArrayBuilder> builder;
  ARROW_RETURN_NOT_OK(arrow::MakeBuilder(arrow::default_memory_pool(), array.type(), &builder));
  ARROW_RETURN_NOT_OK(builder->Reserve(static_cast<std::int64_t>(rows.size())));
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    ARROW_RETURN_NOT_OK(builder->AppendArraySlice(*array.data(), rows[begin], static_cast<std::int64_t>(end - begin)));
    begin = end;
  }
  return builder->Finish();
}

absl::StatusOr<std::shared_ptr<arrow::RecordBatch>> TakeRows(const arrow::RecordBatch& batch,
                                                             const std::vector<std::uint32_t>& rows) {
  arrow::ArrayVector columns;
  for (const auto& column : batch.columns()) {
    FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), ingest::FromArrow(TakeRows(*column, rows), kDoing));
  }
  return arrow::RecordBatch::Make(batch.schema(), static_cast<std::int64_t>(rows.size()), std::move(columns));
}

/// Rows without a problem; of several problems of a row the first is kept.
std::vector<std::uint32_t> GoodRows(std::int64_t rows, std::vector<RejectedRow>& rejected) {
  std::stable_sort(rejected.begin(), rejected.end(),
                   [](const RejectedRow& a, const RejectedRow& b) { return a.row < b.row; });
  const auto same_row = [](const RejectedRow& a, const RejectedRow& b) { return a.row == b.row; };
  rejected.erase(std::unique(rejected.begin(), rejected.end(), same_row), rejected.end());
  std::vector<std::uint32_t> good;
  good.reserve(static_cast<std::size_t>(rows));
  auto bad = rejected.begin();
  for (std::int64_t row = 0; row < rows; ++row) {
    if (bad != rejected.end() && bad->row == static_cast<std::uint64_t>(row)) {
      ++bad;
    } else {
      good.push_back(static_cast<std::uint32_t>(row));
    }
  }
  return good;
}

void Describe(PoolBlock& block, const PoolShape& shape) {
  block.statistics = StatisticsOf(*block.batch, shape);
  block.checksum = ChecksumOf(*block.batch);
}

void NameRejected(const arrow::RecordBatch& batch, const PoolShape& shape, std::vector<RejectedRow>& rejected) {
  const PoolColumns columns = ColumnsOf(shape);
  if (columns.id < 0) return;
  const auto& ids = static_cast<const arrow::StringArray&>(*batch.column(columns.id));
  for (RejectedRow& row : rejected) {
    const auto index = static_cast<std::int64_t>(row.row);
    if (ids.IsValid(index)) row.id = ids.GetString(index).substr(0, 200);
  }
}

}  // namespace

PoolShape ShapeFor(const ingest::ColumnRoles& roles) {
  PoolShape shape;
  shape.sparse = roles.sparse();
  shape.features = shape.sparse ? 0 : static_cast<std::int32_t>(roles.width());
  shape.has_id = roles.id >= 0;
  shape.has_label = roles.label >= 0;
  shape.has_cost = roles.cost >= 0;
  shape.has_payload = roles.payload >= 0;
  return shape;
}

absl::StatusOr<BuiltBlock> BuildBlock(const arrow::RecordBatch& batch, const ingest::ColumnRoles& roles,
                                      const ingest::InputLimits& limits) {
  const PoolShape shape = ShapeFor(roles);
  BuiltBlock built;
  FULCRUM_ASSIGN_OR_RETURN(auto columns, MakeBlockColumns(batch, roles, limits, built.rejected));
  const auto whole = arrow::RecordBatch::Make(SchemaOf(shape), batch.num_rows(), std::move(columns));
  NameRejected(*whole, shape, built.rejected);
  if (built.rejected.empty()) {
    built.block.batch = whole;
    built.block.source_rows.resize(static_cast<std::size_t>(batch.num_rows()));
    std::iota(built.block.source_rows.begin(), built.block.source_rows.end(), 0U);
  } else {
    built.block.source_rows = GoodRows(batch.num_rows(), built.rejected);
    FULCRUM_ASSIGN_OR_RETURN(built.block.batch, TakeRows(*whole, built.block.source_rows));
  }
  FingerprintRows(*built.block.batch, shape, built.block);
  Describe(built.block, shape);
  return built;
}

absl::StatusOr<PoolBlock> KeepRows(const PoolBlock& block, const std::vector<std::uint32_t>& rows) {
  PoolBlock kept;
  FULCRUM_ASSIGN_OR_RETURN(kept.batch, TakeRows(*block.batch, rows));
  FULCRUM_ASSIGN_OR_RETURN(const PoolShape shape, ShapeOf(*block.batch->schema()));
  for (std::uint32_t row : rows) kept.source_rows.push_back(block.source_rows[row]);
  FingerprintRows(*kept.batch, shape, kept);
  Describe(kept, shape);
  return kept;
}

void FingerprintRows(const arrow::RecordBatch& batch, const PoolShape& shape, PoolBlock& block) {
  if (!shape.has_id) return;
  block.id_fingerprints = IdFingerprints(batch, shape);
  block.content_fingerprints = ContentFingerprints(batch, shape);
}

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
