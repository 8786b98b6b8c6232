// Columns of lists, whatever kind of list Arrow has them in. Views; they own nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arrow/type_fwd.h"

namespace fulcrum::ingest {

/// The type of the elements of a list, large list or fixed-size list; null for other types.
const arrow::DataType* ListElementType(const arrow::DataType& type);

/// Elements of a fixed-size list; 0 for lists of any length.
std::size_t FixedListLength(const arrow::DataType& type);

class ListColumn {
 public:
  /// `array` must be of a type that ListElementType knows, and outlive this.
  explicit ListColumn(const arrow::Array& array);

  bool IsThere(std::int64_t row) const;
  std::size_t LengthOf(std::int64_t row) const;
  /// Where the row's elements begin in elements().
  std::int64_t BeginOf(std::int64_t row) const;
  const arrow::Array& elements() const { return *elements_; }

 private:
  const arrow::Array& array_;
  const arrow::Array* elements_ = nullptr;
  const std::int32_t* offsets_ = nullptr;        // of a list
  const std::int64_t* large_offsets_ = nullptr;  // of a large list
  std::int64_t fixed_length_ = 0;                // of a fixed-size list
};

}  // namespace fulcrum::ingest
