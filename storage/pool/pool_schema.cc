#include "storage/pool/pool_schema.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "arrow/type.h"

namespace fulcrum::storage {
namespace {

constexpr char kId[] = "id";
constexpr char kFeatures[] = "features";
constexpr char kIndices[] = "indices";
constexpr char kValues[] = "values";
constexpr char kLabel[] = "label";
constexpr char kCost[] = "cost";
constexpr char kPayload[] = "payload";

}  // namespace

std::shared_ptr<arrow::Schema> SchemaOf(const PoolShape& shape) {
  arrow::FieldVector fields;
  const auto add = [&](const char* name, std::shared_ptr<arrow::DataType> type, bool nullable) {
    fields.push_back(arrow::field(name, std::move(type), nullable));
  };
  const auto element = [](std::shared_ptr<arrow::DataType> type) {
    return arrow::field("item", std::move(type), /*nullable=*/false);
  };
  if (shape.has_id) add(kId, arrow::utf8(), false);
  if (shape.sparse) {
    add(kIndices, arrow::list(element(arrow::int32())), false);
    add(kValues, arrow::list(element(arrow::float32())), false);
  } else {
    add(kFeatures, arrow::fixed_size_list(element(arrow::float32()), shape.features), false);
  }
  if (shape.has_label) add(kLabel, arrow::utf8(), true);
  if (shape.has_cost) add(kCost, arrow::float64(), true);
  if (shape.has_payload) add(kPayload, arrow::binary(), true);
  return arrow::schema(std::move(fields));
}

PoolColumns ColumnsOf(const PoolShape& shape) {
  PoolColumns columns;
  int next = 0;
  if (shape.has_id) columns.id = next++;
  columns.features = next++;
  if (shape.sparse) columns.values = next++;
  if (shape.has_label) columns.label = next++;
  if (shape.has_cost) columns.cost = next++;
  if (shape.has_payload) columns.payload = next++;
  return columns;
}

absl::StatusOr<PoolShape> ShapeOf(const arrow::Schema& schema) {
  PoolShape shape;
  shape.has_id = schema.GetFieldIndex(kId) >= 0;
  shape.has_label = schema.GetFieldIndex(kLabel) >= 0;
  shape.has_cost = schema.GetFieldIndex(kCost) >= 0;
  shape.has_payload = schema.GetFieldIndex(kPayload) >= 0;
  shape.sparse = schema.GetFieldIndex(kIndices) >= 0;
  const int features = schema.GetFieldIndex(kFeatures);
  if (features >= 0 && schema.field(features)->type()->id() == arrow::Type::FIXED_SIZE_LIST) {
    shape.features = static_cast<const arrow::FixedSizeListType&>(*schema.field(features)->type()).list_size();
  }
  if (schema.Equals(*SchemaOf(shape), /*check_metadata=*/false)) return shape;
  return absl::DataLossError(absl::StrCat("the columns are not those of a pool: ", schema.ToString()));
}

}  // namespace fulcrum::storage
