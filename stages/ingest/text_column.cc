#include "stages/ingest/text_column.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "arrow/array.h"
#include "arrow/type.h"
#include "arrow/util/utf8.h"

namespace fulcrum::ingest {
namespace {

void AppendBinary(const arrow::BinaryArray& column, std::vector<std::string>& text) {
  arrow::util::InitializeUTF8();
  for (std::int64_t row = 0; row < column.length(); ++row) {
    const auto value = column.GetView(row);
    const bool usable = column.IsValid(row) && arrow::util::ValidateUTF8(value);
    text.emplace_back(usable ? absl::StripAsciiWhitespace({value.data(), value.size()}) : absl::string_view());
  }
}

template <typename ArrayType>
void AppendIntegers(const ArrayType& column, std::vector<std::string>& text) {
  for (std::int64_t row = 0; row < column.length(); ++row) {
    text.push_back(column.IsValid(row) ? absl::StrCat(+column.Value(row)) : std::string());
  }
}

}  // namespace

absl::Status AppendTextColumn(const arrow::Array& column, std::vector<std::string>& text) {
  switch (column.type_id()) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      AppendBinary(static_cast<const arrow::BinaryArray&>(column), text);
      return absl::OkStatus();
    case arrow::Type::INT32:
      AppendIntegers(static_cast<const arrow::Int32Array&>(column), text);
      return absl::OkStatus();
    case arrow::Type::INT64:
      AppendIntegers(static_cast<const arrow::Int64Array&>(column), text);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("has the type ", column.type()->ToString(), "; it must be text or 32 or 64 bit integers"));
  }
}

}  // namespace fulcrum::ingest
