#include "storage/pool/pool_block.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/builder.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "arrow/type_fwd.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/input_stream.h"
#include "storage/pool/pool_manifest.h"

namespace fulcrum::storage {
namespace {

// The columns of a pool's block: made from a source's batch, and looked at row by row. Thread-safe.

constexpr char kDoing[] = "cannot make a block of the pool";
constexpr ingest::BadCellRequest kEveryBadRow = {.most = std::numeric_limits<std::size_t>::max(), .one_a_row = true};

/// One batch that is converted.
struct Work {
  const arrow::RecordBatch& batch;
  const ingest::ColumnRoles& roles;
  const ingest::InputLimits& limits;
  std::vector<RejectedRow>& rejected;

  std::string NameOf(int column) const { return batch.schema()->field(column)->name(); }
  void Reject(std::int64_t row, int column, std::string reason) const {
    rejected.push_back({static_cast<std::uint64_t>(row), {}, NameOf(column), std::move(reason)});
  }
};

void RejectBadCells(const Work& work, std::vector<ingest::BadCell> bad) {
  for (ingest::BadCell& cell : bad) {
    work.rejected.push_back({cell.row, {}, work.roles.parts[cell.part].name, std::move(cell.complaint)});
  }
}

absl::StatusOr<std::shared_ptr<arrow::Array>> DenseFeatures(const Work& work, const PoolShape& shape) {
  const std::int64_t elements = work.batch.num_rows() * shape.features;
  FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<arrow::Buffer> buffer,
                           ingest::FromArrow(arrow::AllocateBuffer(elements * static_cast<std::int64_t>(sizeof(float)),
                                                                   ingest::CappedPool(work.limits.max_memory_bytes)),
                                             kDoing));
  const MatrixView<float> rows(reinterpret_cast<float*>(buffer->mutable_data()),
                               static_cast<std::size_t>(work.batch.num_rows()),
                               static_cast<std::size_t>(shape.features));
  RejectBadCells(work, ingest::DecodeFeatures<float>(work.batch, work.roles.parts, rows, kEveryBadRow));
  const auto values = std::make_shared<arrow::FloatArray>(elements, std::move(buffer));
  return std::make_shared<arrow::FixedSizeListArray>(SchemaOf(shape)->field(ColumnsOf(shape).features)->type(),
                                                     work.batch.num_rows(), values);
}

absl::StatusOr<arrow::ArrayVector> SparseFeatures(const Work& work, const PoolShape& shape) {
  SparseMatrix rows;
  RejectBadCells(work, ingest::DecodeSparse(work.batch, work.roles.parts[0], rows, kEveryBadRow));
  std::vector<std::int32_t> offsets(rows.offsets.begin(), rows.offsets.end());
  std::vector<float> values(rows.values.begin(), rows.values.end());
  for (std::size_t row = 0; row < rows.rows(); ++row) {
    for (std::size_t i = rows.offsets[row]; i < rows.offsets[row + 1]; ++i) {
      if (std::isfinite(values[i])) continue;
      work.Reject(static_cast<std::int64_t>(row), work.roles.parts[0].values_column,
                  absl::StrCat("the value ", rows.values[i], " does not fit a 32-bit float"));
      break;
    }
  }
  const auto elements = static_cast<std::int64_t>(values.size());
  const auto schema = SchemaOf(shape);
  const PoolColumns columns = ColumnsOf(shape);
  const std::shared_ptr<arrow::Buffer> shared_offsets = arrow::Buffer::FromVector(std::move(offsets));
  const auto list = [&](int column, std::shared_ptr<arrow::Array> items) {
    return std::make_shared<arrow::ListArray>(schema->field(column)->type(), work.batch.num_rows(), shared_offsets,
                                              std::move(items));
  };
  return arrow::ArrayVector{list(columns.features, std::make_shared<arrow::Int32Array>(
                                                       elements, arrow::Buffer::FromVector(std::move(rows.columns)))),
                            list(columns.values, std::make_shared<arrow::FloatArray>(
                                                     elements, arrow::Buffer::FromVector(std::move(values))))};
}

/// Ids and labels; a missing id rejects its row, a missing label is null.
absl::StatusOr<std::shared_ptr<arrow::Array>> TextColumn(const Work& work, int column, bool required) {
  std::vector<std::string> texts;
  const absl::Status status = ingest::AppendTextColumn(*work.batch.column(column), texts);
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat("column '", work.NameOf(column), "' ", status.message()));
  }
  arrow::StringBuilder builder;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    if (static_cast<std::int64_t>(texts[i].size()) > work.limits.max_text_bytes) {
      work.Reject(
          row, column,
          absl::StrCat("the text has ", texts[i].size(), " bytes; at most ", work.limits.max_text_bytes, " are taken"));
      texts[i].clear();
    } else if (texts[i].empty() && required) {
      work.Reject(row, column, "the id is missing or not UTF-8 text");
    }
    const bool null = texts[i].empty() && !required;
    const arrow::Status appended = null ? builder.AppendNull() : builder.Append(texts[i]);
    FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(appended, kDoing));
  }
  return ingest::FromArrow(builder.Finish(), kDoing);
}

/// Missing costs are null; others must be finite numbers of at least 0.
absl::StatusOr<std::shared_ptr<arrow::Array>> CostColumn(const Work& work) {
  const std::shared_ptr<arrow::Array> costs = work.batch.column(work.roles.cost);
  ingest::FeaturePart part;
  part.column = work.roles.cost;
  part.name = work.NameOf(part.column);
  Matrix<double> values = Matrix<double>::Zero(static_cast<std::size_t>(work.batch.num_rows()), 1);
  std::vector<bool> missing(values.rows(), false);
  for (ingest::BadCell& cell : ingest::DecodeFeatures<double>(work.batch, {part}, values.view(), kEveryBadRow)) {
    if (cell.complaint == "the value is missing") {
      missing[cell.row] = true;
    } else {
      work.Reject(static_cast<std::int64_t>(cell.row), part.column, std::move(cell.complaint));
    }
  }
  arrow::DoubleBuilder builder;
  for (std::size_t row = 0; row < values.rows(); ++row) {
    if (values(row, 0) < 0) {
      work.Reject(static_cast<std::int64_t>(row), part.column,
                  absl::StrCat("the cost ", values(row, 0), " is negative; a label costs at least 0"));
    }
    const arrow::Status appended = missing[row] ? builder.AppendNull() : builder.Append(values(row, 0));
    FULCRUM_RETURN_IF_ERROR(ingest::FromArrow(appended, kDoing));
  }
  return ingest::FromArrow(builder.Finish(), kDoing);
}

template <typename ArrayType>
arrow::Result<std::shared_ptr<arrow::Array>> CopyPayload(const Work& work, const ArrayType& source) {
  arrow::BinaryBuilder builder(ingest::CappedPool(work.limits.max_memory_bytes));
  for (std::int64_t row = 0; row < source.length(); ++row) {
    if (source.IsNull(row)) {
      ARROW_RETURN_NOT_OK(builder.AppendNull());
      continue;
    }
    const auto value = source.GetView(row);
    const bool fits = static_cast<std::int64_t>(value.size()) <= work.limits.max_text_bytes;
    if (!fits) {
      work.Reject(
          row, work.roles.payload,
          absl::StrCat("the payload has ", value.size(), " bytes; at most ", work.limits.max_text_bytes, " are taken"));
    }
    ARROW_RETURN_NOT_OK(builder.Append(fits ? value : decltype(value)()));
  }
  return builder.Finish();
}

absl::StatusOr<std::shared_ptr<arrow::Array>> PayloadColumn(const Work& work) {
  const std::shared_ptr<arrow::Array> source = work.batch.column(work.roles.payload);
  switch (source->type_id()) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      return ingest::FromArrow(CopyPayload(work, static_cast<const arrow::BinaryArray&>(*source)), kDoing);
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::LARGE_STRING:
      return ingest::FromArrow(CopyPayload(work, static_cast<const arrow::LargeBinaryArray&>(*source)), kDoing);
    default: {
      FULCRUM_ASSIGN_OR_RETURN(const auto text, TextColumn(work, work.roles.payload, /*required=*/false));
      return ingest::FromArrow(CopyPayload(work, static_cast<const arrow::StringArray&>(*text)), kDoing);
    }
  }
}

std::uint64_t FingerprintOf(const arrow::Array& array, std::int64_t row, std::uint64_t seed) {
  if (array.IsNull(row)) return Fingerprint("null", 4, seed);
  switch (array.type_id()) {
    case arrow::Type::DOUBLE:
      return Fingerprint(static_cast<const arrow::DoubleArray&>(array).raw_values() + row, sizeof(double), seed);
    default: {
      const auto value = static_cast<const arrow::BinaryArray&>(array).GetView(row);
      return Fingerprint(value.data(), value.size(), seed + 1);
    }
  }
}

/// All rows of the batch, bad ones too, in the columns of the pool's schema; the complaints go to `rejected`.
absl::StatusOr<arrow::ArrayVector> MakeBlockColumns(const arrow::RecordBatch& batch, const ingest::ColumnRoles& roles,
                                                    const ingest::InputLimits& limits,
                                                    std::vector<RejectedRow>& rejected) {
  const Work work{batch, roles, limits, rejected};
  const PoolShape shape = ShapeFor(roles);
  arrow::ArrayVector columns;
  if (shape.has_id) {
    FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), TextColumn(work, roles.id, /*required=*/true));
  }
  if (shape.sparse) {
    FULCRUM_ASSIGN_OR_RETURN(const arrow::ArrayVector pair, SparseFeatures(work, shape));
    columns.insert(columns.end(), pair.begin(), pair.end());
  } else {
    FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), DenseFeatures(work, shape));
  }
  if (shape.has_label) {
    FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), TextColumn(work, roles.label, /*required=*/false));
  }
  if (shape.has_cost) {
    FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), CostColumn(work));
  }
  if (shape.has_payload) {
    FULCRUM_ASSIGN_OR_RETURN(columns.emplace_back(), PayloadColumn(work));
  }
  return columns;
}

FeatureStatistics StatisticsOf(const arrow::RecordBatch& batch, const PoolShape& shape) {
  const PoolColumns columns = ColumnsOf(shape);
  if (!shape.sparse) {
    return FeatureStatistics::OfDense(DenseRows(batch, shape));
  }
  const auto& indices = static_cast<const arrow::ListArray&>(*batch.column(columns.features));
  const auto& values = static_cast<const arrow::ListArray&>(*batch.column(columns.values));
  const auto elements = static_cast<std::size_t>(indices.value_offset(indices.length()) - indices.value_offset(0));
  const std::int32_t* index = static_cast<const arrow::Int32Array&>(*indices.values()).raw_values();
  const float* value = static_cast<const arrow::FloatArray&>(*values.values()).raw_values();
  return FeatureStatistics::OfSparse(batch.num_rows(), {index + indices.value_offset(0), elements},
                                     {value + values.value_offset(0), elements});
}

std::vector<std::uint64_t> IdFingerprints(const arrow::RecordBatch& batch, const PoolShape& shape) {
  const auto& ids = static_cast<const arrow::StringArray&>(*batch.column(ColumnsOf(shape).id));
  std::vector<std::uint64_t> fingerprints(static_cast<std::size_t>(ids.length()));
  for (std::int64_t row = 0; row < ids.length(); ++row) {
    const auto id = ids.GetView(row);
    fingerprints[static_cast<std::size_t>(row)] = Fingerprint(id.data(), id.size());
  }
  return fingerprints;
}

/// Of everything but the id.
std::vector<std::uint64_t> ContentFingerprints(const arrow::RecordBatch& batch, const PoolShape& shape) {
  const PoolColumns columns = ColumnsOf(shape);
  std::vector<std::uint64_t> fingerprints(static_cast<std::size_t>(batch.num_rows()));
  for (std::int64_t row = 0; row < batch.num_rows(); ++row) {
    std::uint64_t seed = FeatureFingerprint(batch, shape, row);
    for (int column : {columns.label, columns.cost, columns.payload}) {
      if (column >= 0) seed = FingerprintOf(*batch.column(column), row, seed);
    }
    fingerprints[static_cast<std::size_t>(row)] = seed;
  }
  return fingerprints;
}

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
