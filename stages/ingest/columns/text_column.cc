#include "stages/ingest/columns/text_column.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/scalar.h"
#include "arrow/type.h"
#include "arrow/util/utf8.h"
#include "stages/core/status_macros.h"

namespace fulcrum::ingest {
namespace {

// A few kilobytes of a file can repeat one long value for each of millions of rows.
constexpr std::int64_t kMostDictionaryBytes = std::int64_t{256} << 20;

template <typename ArrayType>
void AppendBinary(const arrow::Array& array, std::vector<std::string>& text) {
  arrow::util::InitializeUTF8();
  const auto& column = static_cast<const ArrayType&>(array);
  for (std::int64_t row = 0; row < column.length(); ++row) {
    const auto value = column.GetView(row);
    const bool usable = column.IsValid(row) && arrow::util::ValidateUTF8(value);
    text.emplace_back(usable ? absl::StripAsciiWhitespace({value.data(), value.size()}) : absl::string_view());
  }
}

template <typename ArrayType>
void AppendIntegers(const arrow::Array& array, std::vector<std::string>& text) {
  const auto& column = static_cast<const ArrayType&>(array);
  for (std::int64_t row = 0; row < column.length(); ++row) {
    text.push_back(column.IsValid(row) ? absl::StrCat(+column.Value(row)) : std::string());
  }
}

void AppendBooleans(const arrow::Array& array, std::vector<std::string>& text) {
  const auto& column = static_cast<const arrow::BooleanArray&>(array);
  for (std::int64_t row = 0; row < column.length(); ++row) {
    text.emplace_back(column.IsNull(row) ? "" : column.Value(row) ? "true" : "false");
  }
}

/// Times and decimals, as Arrow prints them.
void AppendPrinted(const arrow::Array& column, std::vector<std::string>& text) {
  for (std::int64_t row = 0; row < column.length(); ++row) {
    const auto value = column.GetScalar(row);
    text.push_back(value.ok() && (*value)->is_valid ? (*value)->ToString() : std::string());
  }
}

absl::Status AppendDictionary(const arrow::Array& array, std::vector<std::string>& text) {
  const auto& column = static_cast<const arrow::DictionaryArray&>(array);
  std::vector<std::string> words;
  FULCRUM_RETURN_IF_ERROR(AppendTextColumn(*column.dictionary(), words));
  std::int64_t bytes = 0;
  for (std::int64_t row = 0; row < column.length(); ++row) {
    if (column.IsNull(row)) continue;
    bytes += static_cast<std::int64_t>(words[static_cast<std::size_t>(column.GetValueIndex(row))].size());
  }
  if (bytes > kMostDictionaryBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("has a dictionary whose values take ", bytes >> 20, " MiB in ",
                                                     column.length(), " rows; at most ", kMostDictionaryBytes >> 20,
                                                     " MiB are possible"));
  }
  for (std::int64_t row = 0; row < column.length(); ++row) {
    text.push_back(column.IsValid(row) ? words[static_cast<std::size_t>(column.GetValueIndex(row))] : std::string());
  }
  return absl::OkStatus();
}

template <typename ArrayType>
void AppendBytes(const arrow::Array& array, std::vector<std::string>& bytes) {
  const auto& column = static_cast<const ArrayType&>(array);
  for (std::int64_t row = 0; row < column.length(); ++row) {
    bytes.emplace_back(column.IsValid(row) ? column.GetView(row) : std::string_view());
  }
}

using Append = void (*)(const arrow::Array& array, std::vector<std::string>& text);

Append FindAppend(arrow::Type::type type) {
  switch (type) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      return AppendBinary<arrow::BinaryArray>;
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::LARGE_STRING:
      return AppendBinary<arrow::LargeBinaryArray>;
    case arrow::Type::INT8:
      return AppendIntegers<arrow::Int8Array>;
    case arrow::Type::INT16:
      return AppendIntegers<arrow::Int16Array>;
    case arrow::Type::INT32:
      return AppendIntegers<arrow::Int32Array>;
    case arrow::Type::INT64:
      return AppendIntegers<arrow::Int64Array>;
    case arrow::Type::UINT8:
      return AppendIntegers<arrow::UInt8Array>;
    case arrow::Type::UINT16:
      return AppendIntegers<arrow::UInt16Array>;
    case arrow::Type::UINT32:
      return AppendIntegers<arrow::UInt32Array>;
    case arrow::Type::UINT64:
      return AppendIntegers<arrow::UInt64Array>;
    case arrow::Type::BOOL:
      return AppendBooleans;
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DECIMAL32:
    case arrow::Type::DECIMAL64:
    case arrow::Type::DECIMAL128:
    case arrow::Type::DECIMAL256:
      return AppendPrinted;
    default:
      return nullptr;
  }
}

}  // namespace

bool CanBeText(const arrow::DataType& type) {
  if (type.id() != arrow::Type::DICTIONARY) return FindAppend(type.id()) != nullptr;
  return CanBeText(*static_cast<const arrow::DictionaryType&>(type).value_type());
}

absl::Status AppendTextColumn(const arrow::Array& column, std::vector<std::string>& text) {
  if (column.type_id() == arrow::Type::DICTIONARY) return AppendDictionary(column, text);
  if (const Append append = FindAppend(column.type_id())) {
    append(column, text);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has the type ", column.type()->ToString(), "; it must be text, integers or times"));
}

absl::Status AppendPayloadColumn(const arrow::Array& column, std::vector<std::string>& payloads) {
  switch (column.type_id()) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      AppendBytes<arrow::BinaryArray>(column, payloads);
      return absl::OkStatus();
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::LARGE_STRING:
      AppendBytes<arrow::LargeBinaryArray>(column, payloads);
      return absl::OkStatus();
    default:
      return AppendTextColumn(column, payloads);
  }
}

}  // namespace fulcrum::ingest
