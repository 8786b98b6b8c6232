#include "stages/ingest/columns/number_columns.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "arrow/array.h"
#include "arrow/type.h"
#include "stages/core/number_text.h"

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
  // A number less itself is zero, or NaN where it is infinite or NaN; the bits of a NaN stay when others join.
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

}  // namespace fulcrum::ingest
