// Arrays of numbers, and of text that reads as numbers, in their own types. For ingest's sources only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "arrow/array.h"
#include "arrow/type.h"
#include "arrow/type_fwd.h"
#include "arrow/type_traits.h"
#include "arrow/util/decimal.h"
#include "arrow/util/float16.h"
#include "stages/core/matrix.h"
#include "stages/ingest/columns/column_roles.h"

namespace fulcrum::ingest {

/// Calls visit with the array in its own type; false if the type is neither a number, a truth value nor text.
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
    case arrow::Type::BOOL:
      return visit(static_cast<const arrow::BooleanArray&>(array)), true;
    case arrow::Type::DECIMAL32:
      return visit(static_cast<const arrow::Decimal32Array&>(array)), true;
    case arrow::Type::DECIMAL64:
      return visit(static_cast<const arrow::Decimal64Array&>(array)), true;
    case arrow::Type::DECIMAL128:
      return visit(static_cast<const arrow::Decimal128Array&>(array)), true;
    case arrow::Type::DECIMAL256:
      return visit(static_cast<const arrow::Decimal256Array&>(array)), true;
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

template <typename ArrayType>
inline constexpr bool kIsTextArray =
    std::is_base_of_v<arrow::BinaryArray, ArrayType> || std::is_base_of_v<arrow::LargeBinaryArray, ArrayType>;
template <typename ArrayType>
inline constexpr bool kIsDecimalArray = arrow::is_decimal_type<typename ArrayType::TypeClass>::value;

/// Text that reads as a number, or as a truth value, which is 1 or 0: tools write columns of them as "True" and
/// "False".
std::optional<double> NumberFromText(absl::string_view text);

/// The value at a place that is not null; nothing if it is text that does not read as a number.
template <typename ArrayType>
std::optional<double> NumberAt(const ArrayType& array, std::int64_t index) {
  if constexpr (kIsTextArray<ArrayType>) {
    const auto text = array.GetView(index);
    return NumberFromText({text.data(), text.size()});
  } else if constexpr (kIsDecimalArray<ArrayType>) {
    using Decimal = typename arrow::TypeTraits<typename ArrayType::TypeClass>::CType;
    return Decimal(array.GetValue(index)).ToDouble(static_cast<const arrow::DecimalType&>(*array.type()).scale());
  } else {
    return static_cast<double>(NumberFrom<ArrayType>(array.Value(index)));
  }
}

// Columns of lists, whatever kind of list Arrow has them in. Views; they own nothing.

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

// Columns of float32 into rows, the way a pool keeps them. Functions of their arguments; thread-safe.

/// Columns that are turned into rows together: as many as fill a vector register.
inline constexpr std::size_t kColumnsTogether = 8;

/// Writes `count` rows, `stride` apart, from the first values of these columns. False if one is not finite.
bool TransposeFinite(const std::array<const float*, kColumnsTogether>& columns, std::size_t count, float* rows,
                     std::size_t stride);

// Columns of ids, labels and payloads as text.

/// Whether AppendTextColumn takes a column of this type.
bool CanBeText(const arrow::DataType& type);

/// Appends a column's values as text, spaces around them removed: text as it is, integers in decimal, truth values as
/// "true" and "false", times and decimals as Arrow prints them, dictionaries by what they stand for. A value that is
/// null or not UTF-8 becomes empty, which callers reject. InvalidArgument for other types, so floating numbers cannot
/// lose digits.
absl::Status AppendTextColumn(const arrow::Array& column, std::vector<std::string>& text);

/// Appends a column of payloads: text and bytes exactly as they are, other types as AppendTextColumn has them; empty
/// where there is none.
absl::Status AppendPayloadColumn(const arrow::Array& column, std::vector<std::string>& payloads);

// Features of a record batch as a block of rows: dense, or sparse.

// What is wrong with a file, several things in one message, so that a file is corrected once and not line by line. Not
// thread-safe.

class ProblemList {
 public:
  /// Problems shown in one message; the others are only counted.
  static constexpr std::size_t kMostShown = 5;

  /// `problem` says where and what: "line 5, column 'f2': 'abc' is not a number".
  void Add(std::string problem);
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ >= kMostShown; }
  /// OK if there are none, else DataLoss with the file, the problems and what to do about them.
  absl::Status ToStatus(absl::string_view file, absl::string_view what_to_do) const;

 private:
  std::size_t count_ = 0;
  std::vector<std::string> shown_;
};

// What is wrong with a value that should be a feature, in words.

inline constexpr char kMissingValue[] = "the value is missing";

/// "'abc' is not a number", "'1e99' does not fit 32 bits".
std::string ComplaintAboutText(absl::string_view text);
std::string ComplaintAboutNumber(double value);

/// Of the value at a place that is not null.
template <typename ArrayType>
std::string ComplaintAt(const ArrayType& array, std::int64_t index) {
  if constexpr (kIsTextArray<ArrayType>) {
    const auto text = array.GetView(index);
    return ComplaintAboutText({text.data(), text.size()});
  } else {
    return ComplaintAboutNumber(NumberAt(array, index).value_or(0));
  }
}

/// A value that cannot be a feature.
struct BadCell {
  std::size_t row = 0;    ///< in the batch
  std::size_t part = 0;   ///< index into the parts that were asked for
  std::string complaint;  ///< "'abc' is not a number"
};

/// Which bad cells are of interest.
struct BadCellRequest {
  std::size_t most = 5;
  bool one_a_row = false;
};

/// Fills the rows of `out`, part after part: numbers of any type, text that reads as one, or lists of numbers; `out`
/// has as many columns as the parts are wide. T is double, or float, for which a value must fit. Returns the first bad
/// cells in reading order; empty if every value is finite. Rows are decoded in parallel.
template <typename T>
std::vector<BadCell> DecodeFeatures(const arrow::RecordBatch& batch, const std::vector<FeaturePart>& parts,
                                    MatrixView<T> out, const BadCellRequest& request);

/// Appends the rows of a sparse pair, their elements sorted; a bad row appends a row without elements.
std::vector<BadCell> DecodeSparse(const arrow::RecordBatch& batch, const FeaturePart& pair, SparseMatrix& out,
                                  const BadCellRequest& request);

/// Numbers, and text that may read as one.
bool IsFeatureType(const arrow::DataType& type);
/// Integers, floating-point numbers, decimals, and truth values, which are 0 and 1.
bool IsNumberType(const arrow::DataType& type);
bool IsIntegerType(const arrow::DataType& type);

}  // namespace fulcrum::ingest
