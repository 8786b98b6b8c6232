#include "stages/ingest/list_column.h"

#include "arrow/array.h"
#include "arrow/type.h"

namespace fulcrum::ingest {

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
