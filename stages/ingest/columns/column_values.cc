#include "stages/ingest/columns/column_values.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/scalar.h"
#include "arrow/type.h"
#include "arrow/util/utf8.h"
#include "stages/core/number_text.h"
#include "stages/core/status_macros.h"

namespace fulcrum::ingest {

std::optional<double> NumberFromText(absl::string_view text) {
  if (const std::optional<double> number = ParseNumber(text)) return number;
  const absl::string_view word = absl::StripAsciiWhitespace(text);
  if (absl::EqualsIgnoreCase(word, "true")) return 1;
  if (absl::EqualsIgnoreCase(word, "false")) return 0;
  return std::nullopt;
}

const arrow::DataType* ListElementType(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return static_cast<const arrow::BaseListType&>(type).value_type().get();
    default:
      return nullptr;
  }
}

std::size_t FixedListLength(const arrow::DataType& type) {
  if (type.id() != arrow::Type::FIXED_SIZE_LIST) return 0;
  return static_cast<std::size_t>(static_cast<const arrow::FixedSizeListType&>(type).list_size());
}

ListColumn::ListColumn(const arrow::Array& array) : array_(array) {
  switch (array.type_id()) {
    case arrow::Type::LIST: {
      const auto& list = static_cast<const arrow::ListArray&>(array);
      elements_ = list.values().get();
      offsets_ = list.raw_value_offsets();
      return;
    }
    case arrow::Type::LARGE_LIST: {
      const auto& list = static_cast<const arrow::LargeListArray&>(array);
      elements_ = list.values().get();
      large_offsets_ = list.raw_value_offsets();
      return;
    }
    default: {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(array);
      elements_ = list.values().get();
      fixed_length_ = static_cast<const arrow::FixedSizeListType&>(*array.type()).list_size();
    }
  }
}

bool ListColumn::IsThere(std::int64_t row) const {
  return array_.IsValid(row);
}

std::size_t ListColumn::LengthOf(std::int64_t row) const {
  if (offsets_ != nullptr) return static_cast<std::size_t>(offsets_[row + 1] - offsets_[row]);
  if (large_offsets_ != nullptr) return static_cast<std::size_t>(large_offsets_[row + 1] - large_offsets_[row]);
  return static_cast<std::size_t>(fixed_length_);
}

std::int64_t ListColumn::BeginOf(std::int64_t row) const {
  if (offsets_ != nullptr) return offsets_[row];
  if (large_offsets_ != nullptr) return large_offsets_[row];
  return (array_.offset() + row) * fixed_length_;
}

}  // namespace fulcrum::ingest

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace fulcrum::ingest {
namespace {

using Columns = std::array<const float*, kColumnsTogether>;

bool TransposeOneByOne(const Columns& columns, std::size_t begin, std::size_t end, float* rows, std::size_t stride) {
  bool finite = true;
  for (std::size_t row = begin; row < end; ++row) {
    for (std::size_t col = 0; col < columns.size(); ++col) {
      const float value = columns[col][row];
      rows[row * stride + col] = value;
      finite &= std::isfinite(value);
    }
  }
  return finite;
}

#if defined(__AVX2__)

/// Eight by eight values: pairs, then fours, then halves change places.
void TransposeTile(__m256 (&tile)[8]) {
  __m256 pairs[8], fours[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(tile[i], tile[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(tile[i], tile[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], _MM_SHUFFLE(1, 0, 1, 0));
    fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], _MM_SHUFFLE(3, 2, 3, 2));
    fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], _MM_SHUFFLE(1, 0, 1, 0));
    fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], _MM_SHUFFLE(3, 2, 3, 2));
  }
  for (int i = 0; i < 4; ++i) {
    tile[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    tile[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/// The rows that fill whole tiles; how many they were.
std::size_t TransposeTiles(const Columns& columns, std::size_t count, float* rows, std::size_t stride, bool& finite) {
  // A number less itself is zero, or NaN if it is infinite or NaN; the bits of a NaN stay when others join.
  __m256 differences = _mm256_setzero_ps();
  std::size_t row = 0;
  for (; row + 8 <= count; row += 8) {
    __m256 tile[8];
    for (int col = 0; col < 8; ++col) {
      tile[col] = _mm256_loadu_ps(columns[static_cast<std::size_t>(col)] + row);
      differences = _mm256_or_ps(differences, _mm256_sub_ps(tile[col], tile[col]));
    }
    TransposeTile(tile);
    for (std::size_t i = 0; i < 8; ++i) _mm256_storeu_ps(rows + (row + i) * stride, tile[i]);
  }
  finite = _mm256_movemask_ps(_mm256_cmp_ps(differences, _mm256_setzero_ps(), _CMP_EQ_OQ)) == 0xff;
  return row;
}

#else

std::size_t TransposeTiles(const Columns&, std::size_t, float*, std::size_t, bool& finite) {
  finite = true;
  return 0;
}

#endif

}  // namespace

bool TransposeFinite(const Columns& columns, std::size_t count, float* rows, std::size_t stride) {
  bool finite = true;
  const std::size_t done = TransposeTiles(columns, count, rows, stride, finite);
  return TransposeOneByOne(columns, done, count, rows, stride) && finite;
}

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
