// Arrays of numbers, and of text that reads as numbers, in their own types. For ingest's sources only.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "arrow/array.h"
#include "arrow/type.h"
#include "arrow/util/float16.h"
#include "stages/ingest/number_text.h"

namespace fulcrum::ingest {

/// Calls visit with the array in its own type; false where the type is neither a number nor text.
template <typename Visit>
bool VisitNumberArray(const arrow::Array& array, const Visit& visit) {
  switch (array.type_id()) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      return visit(static_cast<const arrow::BinaryArray&>(array)), true;
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::LARGE_STRING:
      return visit(static_cast<const arrow::LargeBinaryArray&>(array)), true;
    case arrow::Type::DOUBLE:
      return visit(static_cast<const arrow::DoubleArray&>(array)), true;
    case arrow::Type::FLOAT:
      return visit(static_cast<const arrow::FloatArray&>(array)), true;
    case arrow::Type::HALF_FLOAT:
      return visit(static_cast<const arrow::HalfFloatArray&>(array)), true;
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

/// What a value as it lies in an array stands for: to Arrow, half floats are bits.
template <typename ArrayType, typename Raw>
auto NumberFrom(Raw raw) {
  if constexpr (std::is_same_v<ArrayType, arrow::HalfFloatArray>) {
    return arrow::util::Float16::FromBits(raw).ToFloat();
  } else {
    return raw;
  }
}

/// The value at a place that is not null; nothing where text is no number.
template <typename ArrayType>
std::optional<double> NumberAt(const ArrayType& array, std::int64_t index) {
  if constexpr (std::is_base_of_v<arrow::BinaryArray, ArrayType> ||
                std::is_base_of_v<arrow::LargeBinaryArray, ArrayType>) {
    const auto text = array.GetView(index);
    return ParseNumber({text.data(), text.size()});
  } else {
    return static_cast<double>(NumberFrom<ArrayType>(array.Value(index)));
  }
}

}  // namespace fulcrum::ingest
