#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "arrow/array.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "storage/pool/pool_manifest.h"

#define XXH_INLINE_ALL
#include "arrow/vendored/xxhash.h"

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

namespace {

std::uint64_t Chain(std::uint64_t seed, std::int64_t number) {
  return Fingerprint(&number, sizeof(number), seed);
}

std::uint64_t ChecksumOfArray(const arrow::Array& array, std::uint64_t seed);

/// The bytes of values [begin, end) of fixed width.
std::uint64_t ChecksumOfFixed(const arrow::Array& array, int bytes_each, std::uint64_t seed) {
  const auto& buffer = array.data()->buffers[1];
  if (array.length() == 0 || buffer == nullptr) return seed;
  return Fingerprint(buffer->data() + array.offset() * bytes_each,
                     static_cast<std::size_t>(array.length() * bytes_each), seed);
}

std::uint64_t ChecksumOfBinary(const arrow::BinaryArray& array, std::uint64_t seed) {
  for (std::int64_t row = 0; row < array.length(); ++row) seed = Chain(seed, array.value_length(row));
  if (array.total_values_length() == 0) return seed;
  return Fingerprint(array.raw_data() + array.value_offset(0), static_cast<std::size_t>(array.total_values_length()),
                     seed);
}

std::uint64_t ChecksumOfList(const arrow::ListArray& array, std::uint64_t seed) {
  for (std::int64_t row = 0; row < array.length(); ++row) seed = Chain(seed, array.value_length(row));
  const std::int64_t begin = array.value_offset(0);
  return ChecksumOfArray(*array.values()->Slice(begin, array.value_offset(array.length()) - begin), seed);
}

std::uint64_t ChecksumOfNulls(const arrow::Array& array, std::uint64_t seed) {
  if (array.null_count() == 0) return seed;
  for (std::int64_t row = 0; row < array.length(); ++row) {
    if (array.IsNull(row)) seed = Chain(seed, row);
  }
  return seed;
}

std::uint64_t ChecksumOfArray(const arrow::Array& array, std::uint64_t seed) {
  seed = ChecksumOfNulls(array, Chain(seed, array.length()));
  switch (array.type_id()) {
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
      const std::int64_t width = static_cast<const arrow::FixedSizeListType&>(*array.type()).list_size();
      return ChecksumOfArray(*list.values()->Slice(array.offset() * width, array.length() * width), seed);
    }
    case arrow::Type::LIST:
      return ChecksumOfList(static_cast<const arrow::ListArray&>(array), seed);
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      return ChecksumOfBinary(static_cast<const arrow::BinaryArray&>(array), seed);
    default:
      return ChecksumOfFixed(array, array.type()->byte_width(), seed);
  }
}

}  // namespace

std::uint64_t Fingerprint(const void* bytes, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

std::uint64_t ChecksumOf(const arrow::RecordBatch& batch) {
  std::uint64_t checksum = Chain(0, batch.num_rows());
  for (const auto& column : batch.columns()) checksum = ChecksumOfArray(*column, checksum);
  return checksum;
}

std::string ChecksumText(std::uint64_t checksum) {
  return absl::StrFormat("%016x", checksum);
}

absl::StatusOr<std::uint64_t> ParseChecksum(absl::string_view text) {
  std::uint64_t value = 0;
  if (text.size() != 16 || !absl::SimpleHexAtoi(text, &value)) {
    return absl::DataLossError(absl::StrCat("'", text, "' is not a checksum"));
  }
  return value;
}

}  // namespace fulcrum::storage
