#include "stages/ingest/feature_block.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "arrow/array.h"
#include "arrow/record_batch.h"
#include "arrow/type.h"
#include "arrow/type_traits.h"
#include "stages/core/parallel.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::ingest {
namespace {

constexpr std::size_t kRowsPerTask = 64;
constexpr std::size_t kLongestShownValue = 40;

std::string Quoted(absl::string_view text) {
  if (text.size() <= kLongestShownValue) return absl::StrCat("'", text, "'");
  return absl::StrCat("'", text.substr(0, kLongestShownValue), "...'");
}

std::string ComplaintAboutText(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) return "the value is missing";
  const auto value = ParseNumber(text);
  if (!value) return absl::StrCat(Quoted(text), " is not a number");
  return absl::StrCat(Quoted(text), std::isnan(*value) ? " is not a number (NaN)" : " is infinite");
}

std::string ComplaintAboutNumber(double value) {
  if (std::isnan(value)) return "the value is NaN";
  return absl::StrCat("the value ", value, " is infinite");
}

// Calls visit with the array in its own type; false where the type cannot be a feature.
template <typename Visit>
bool VisitFeatureArray(const arrow::Array& array, const Visit& visit) {
  switch (array.type_id()) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      return visit(static_cast<const arrow::BinaryArray&>(array)), true;
    case arrow::Type::DOUBLE:
      return visit(static_cast<const arrow::DoubleArray&>(array)), true;
    case arrow::Type::FLOAT:
      return visit(static_cast<const arrow::FloatArray&>(array)), true;
    case arrow::Type::INT8:
      return visit(static_cast<const arrow::Int8Array&>(array)), true;
    case arrow::Type::INT16:
      return visit(static_cast<const arrow::Int16Array&>(array)), true;
    case arrow::Type::INT32:
      return visit(static_cast<const arrow::Int32Array&>(array)), true;
    case arrow::Type::INT64:
      return visit(static_cast<const arrow::Int64Array&>(array)), true;
    case arrow::Type::UINT8:
      return visit(static_cast<const arrow::UInt8Array&>(array)), true;
    case arrow::Type::UINT16:
      return visit(static_cast<const arrow::UInt16Array&>(array)), true;
    case arrow::Type::UINT32:
      return visit(static_cast<const arrow::UInt32Array&>(array)), true;
    case arrow::Type::UINT64:
      return visit(static_cast<const arrow::UInt64Array&>(array)), true;
    default:
      return false;
  }
}

template <typename ArrayType>
std::optional<double> ValueAt(const ArrayType& array, std::int64_t row) {
  return static_cast<double>(array.Value(row));
}
std::optional<double> ValueAt(const arrow::BinaryArray& array, std::int64_t row) {
  const auto text = array.GetView(row);
  return ParseNumber({text.data(), text.size()});
}

template <typename ArrayType>
std::string ComplaintAt(const ArrayType& array, std::int64_t row) {
  return ComplaintAboutNumber(static_cast<double>(array.Value(row)));
}
std::string ComplaintAt(const arrow::BinaryArray& array, std::int64_t row) {
  const auto text = array.GetView(row);
  return ComplaintAboutText({text.data(), text.size()});
}

template <typename ArrayType>
void DecodeColumn(const ArrayType& array, std::size_t column, std::size_t first, std::size_t count,
                  MutableMatrixView out, std::vector<BadCell>& bad) {
  for (std::size_t row = first; row < first + count; ++row) {
    const auto index = static_cast<std::int64_t>(row);
    if (array.IsNull(index)) {
      bad.push_back({row, column, "the value is missing"});
      continue;
    }
    const std::optional<double> value = ValueAt(array, index);
    if (value && std::isfinite(*value)) {
      out(row, column) = *value;
    } else {
      bad.push_back({row, column, ComplaintAt(array, index)});
    }
  }
}

// Bad cells are found column by column; people read row by row.
void KeepFirst(std::vector<BadCell>& bad, std::size_t most) {
  std::sort(bad.begin(), bad.end(),
            [](const BadCell& a, const BadCell& b) { return a.row != b.row ? a.row < b.row : a.column < b.column; });
  if (bad.size() > most) bad.resize(most);
}

}  // namespace

bool IsFeatureType(const arrow::DataType& type) {
  return arrow::is_floating(type.id())
             ? type.id() != arrow::Type::HALF_FLOAT
             : arrow::is_integer(type.id()) || type.id() == arrow::Type::BINARY || type.id() == arrow::Type::STRING;
}

std::vector<BadCell> DecodeFeatures(const arrow::RecordBatch& batch, const std::vector<int>& columns,
                                    MutableMatrixView out, std::size_t most) {
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (int column : columns) arrays.push_back(batch.column(column));
  std::vector<std::vector<BadCell>> bad_of_task(out.rows() / kRowsPerTask + 1);
  ParallelForBlocks(out.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    std::vector<BadCell>& bad = bad_of_task[first / kRowsPerTask];
    for (std::size_t i = 0; i < columns.size(); ++i) {
      VisitFeatureArray(*arrays[i], [&](const auto& array) { DecodeColumn(array, i, first, count, out, bad); });
    }
    KeepFirst(bad, most);
  });
  std::vector<BadCell> bad;
  for (const std::vector<BadCell>& of_task : bad_of_task) {
    bad.insert(bad.end(), of_task.begin(), of_task.end());
    if (bad.size() >= most) break;
  }
  KeepFirst(bad, most);
  return bad;
}

}  // namespace fulcrum::ingest
