#include "storage/pool/block_columns.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/buffer.h"
#include "arrow/builder.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/arrow_status.h"
#include "stages/ingest/columns/feature_block.h"
#include "stages/ingest/columns/text_column.h"
#include "storage/pool/batch_checksum.h"
#include "storage/pool/pool_block.h"

namespace fulcrum::storage {
namespace {

constexpr char kDoing[] = "cannot make a block of the pool";
constexpr ingest::BadCellRequest kEveryBadRow = {.most = std::numeric_limits<std::size_t>::max(), .one_a_row = true};

/// One batch on its way.
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

/// Missing costs are null; others must be finite numbers.
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

}  // namespace

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

}  // namespace fulcrum::storage
