// What is wrong with a value that should be a feature, in words.
#pragma once

#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "arrow/array.h"
#include "stages/ingest/number_array.h"

namespace fulcrum::ingest {

inline constexpr char kMissingValue[] = "the value is missing";

/// "'abc' is not a number", "'1e99' does not fit 32 bits".
std::string ComplaintAboutText(absl::string_view text);
std::string ComplaintAboutNumber(double value);

/// Of the value at a place that is not null.
template <typename ArrayType>
std::string ComplaintAt(const ArrayType& array, std::int64_t index) {
  if constexpr (std::is_base_of_v<arrow::BinaryArray, ArrayType> ||
                std::is_base_of_v<arrow::LargeBinaryArray, ArrayType>) {
    const auto text = array.GetView(index);
    return ComplaintAboutText({text.data(), text.size()});
  } else {
    return ComplaintAboutNumber(static_cast<double>(NumberFrom<ArrayType>(array.Value(index))));
  }
}

}  // namespace fulcrum::ingest
