
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "arrow/record_batch.h"
#include "arrow/type_traits.h"
#include "stages/core/number_text.h"
#include "stages/core/parallel.h"
#include "stages/ingest/columns/column_values.h"
#include "stages/ingest/formats/table_source.h"

namespace fulcrum::ingest {

void ProblemList::Add(std::string problem) {
  if (++count_ <= kMostShown) shown_.push_back(std::move(problem));
}

absl::Status ProblemList::ToStatus(absl::string_view file, absl::string_view what_to_do) const {
  if (empty()) return absl::OkStatus();
  if (count_ == 1) {
    return absl::DataLossError(absl::StrCat(file, ", ", shown_.front(), "\n  what to do: ", what_to_do));
  }
  std::string message = absl::StrCat(file, " has problems:");
  for (const std::string& problem : shown_) absl::StrAppend(&message, "\n  ", problem);
  if (full()) absl::StrAppend(&message, "\n  (there may be more)");
  return absl::DataLossError(absl::StrCat(message, "\n  what to do: ", what_to_do));
}

namespace {

constexpr std::size_t kLongestShownValue = 40;

std::string Quoted(absl::string_view text) {
  if (text.size() <= kLongestShownValue) return absl::StrCat("'", text, "'");
  return absl::StrCat("'", text.substr(0, kLongestShownValue), "...'");
}

}  // namespace

std::string ComplaintAboutText(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) return kMissingValue;
  const std::optional<double> value = ParseNumber(text);
  if (!value) return absl::StrCat(Quoted(text), " is not a number");
  if (std::isnan(*value)) return absl::StrCat(Quoted(text), " is not a number (NaN)");
  return absl::StrCat(Quoted(text), std::isinf(*value) ? " is infinite" : " does not fit a 32-bit float");
}

std::string ComplaintAboutNumber(double value) {
  if (std::isnan(value)) return "the value is NaN";
  return absl::StrCat("the value ", value, std::isinf(value) ? " is infinite" : " does not fit a 32-bit float");
}

namespace {

// As many rows as stay in the first cache while their columns are written one after the other.
constexpr std::size_t kRowsPerTask = 64;

/// Rows [first, first + count) of one part, which begins at column `col` of `out`.
template <typename T>
struct PartTask {
  std::size_t part = 0;
  std::size_t col = 0;
  std::size_t width = 1;
  std::size_t first = 0;
  std::size_t count = 0;
  MatrixView<T> out;
};

/// Copies floating numbers without nulls, `stride` apart in the target; false if one of them is not finite, or if
/// they cannot be copied just so.
template <typename T, typename ArrayType>
bool CopyFinite(const ArrayType& array, std::size_t begin, std::size_t count, T* target, std::size_t stride) {
  if constexpr (arrow::is_floating_type<typename ArrayType::TypeClass>::value) {
    if (array.null_count() != 0) return false;
    const auto* values = array.raw_values() + begin;
    bool finite = true;
    for (std::size_t i = 0; i < count; ++i) {
      const T value = static_cast<T>(NumberFrom<ArrayType>(values[i]));
      target[i * stride] = value;
      finite &= std::isfinite(value);
    }
    return finite;
  } else {
    return false;
  }
}

/// One value; the complaint if it cannot be taken.
template <typename T, typename ArrayType>
std::optional<std::string> TakeValue(const ArrayType& array, std::int64_t index, T& target) {
  if (array.IsNull(index)) return kMissingValue;
  const std::optional<double> value = NumberAt(array, index);
  if (!value || !std::isfinite(static_cast<T>(*value))) return ComplaintAt(array, index);
  target = static_cast<T>(*value);
  return std::nullopt;
}

template <typename T, typename ArrayType>
void DecodeNumbers(const ArrayType& array, const PartTask<T>& task, std::vector<BadCell>& bad) {
  T* const target = task.out.data() + task.first * task.out.stride() + task.col;
  if (CopyFinite(array, task.first, task.count, target, task.out.stride())) return;
  for (std::size_t row = task.first; row < task.first + task.count; ++row) {
    auto complaint = TakeValue(array, static_cast<std::int64_t>(row), task.out(row, task.col));
    if (complaint) bad.push_back({row, task.part, *std::move(complaint)});
  }
}

template <typename T, typename ArrayType>
std::optional<std::string> TakeList(const ArrayType& elements, std::int64_t begin, std::span<T> target) {
  if (CopyFinite(elements, static_cast<std::size_t>(begin), target.size(), target.data(), 1)) return std::nullopt;
  for (std::size_t i = 0; i < target.size(); ++i) {
    auto complaint = TakeValue(elements, begin + static_cast<std::int64_t>(i), target[i]);
    if (complaint) return absl::StrCat("at ", i, ": ", *complaint);
  }
  return std::nullopt;
}

template <typename T>
void DecodeLists(const ListColumn& lists, const PartTask<T>& task, std::vector<BadCell>& bad) {
  for (std::size_t row = task.first; row < task.first + task.count; ++row) {
    const auto index = static_cast<std::int64_t>(row);
    std::optional<std::string> complaint;
    if (!lists.IsThere(index)) {
      complaint = "the list is missing";
    } else if (lists.LengthOf(index) != task.width) {
      complaint = absl::StrCat("the list has ", lists.LengthOf(index), " values instead of ", task.width);
    } else {
      VisitNumberArray(lists.elements(), [&](const auto& elements) {
        complaint = TakeList(elements, lists.BeginOf(index), task.out.row(row).subspan(task.col, task.width));
      });
    }
    if (complaint) bad.push_back({row, task.part, *std::move(complaint)});
  }
}

// Bad cells are found column by column; people read row by row.
void KeepFirst(std::vector<BadCell>& bad, const BadCellRequest& request) {
  std::sort(bad.begin(), bad.end(),
            [](const BadCell& a, const BadCell& b) { return a.row != b.row ? a.row < b.row : a.part < b.part; });
  if (request.one_a_row) {
    const auto same_row = [](const BadCell& a, const BadCell& b) { return a.row == b.row; };
    bad.erase(std::unique(bad.begin(), bad.end(), same_row), bad.end());
  }
  if (bad.size() > request.most) bad.resize(request.most);
}

template <typename T>
void DecodePart(const arrow::Array& array, FeaturePart::Kind kind, const PartTask<T>& task, std::vector<BadCell>& bad) {
  if (kind == FeaturePart::Kind::kList) return DecodeLists(ListColumn(array), task, bad);
  VisitNumberArray(array, [&](const auto& typed) { DecodeNumbers(typed, task, bad); });
}

/// The values of a column that can be copied just so; null for others.
template <typename T>
const T* PlainValues(const arrow::Array& array, const FeaturePart& part) {
  if (part.kind == FeaturePart::Kind::kList || array.null_count() != 0) return nullptr;
  if (array.type_id() != arrow::CTypeTraits<T>::ArrowType::type_id) return nullptr;
  return static_cast<const typename arrow::CTypeTraits<T>::ArrayType&>(array).raw_values();
}

/// The columns of a batch, part by part, on their way into rows.
template <typename T>
class ColumnsToRows {
 public:
  ColumnsToRows(const arrow::RecordBatch& batch, const std::vector<FeaturePart>& parts, MatrixView<T> out)
      : parts_(parts), out_(out) {
    for (const FeaturePart& part : parts) {
      arrays_.push_back(batch.column(part.column));
      plain_.push_back(PlainValues<T>(*arrays_.back(), part));
    }
  }

  void Decode(std::size_t first, std::size_t count, std::vector<BadCell>& bad) const {
    std::size_t col = 0;
    for (std::size_t part = 0; part < parts_.size();) {
      const std::size_t end = part + (IsPlainGroup(part) ? kColumnsTogether : 1);
      if (end - part == kColumnsTogether && DecodeTogether(part, col, first, count)) {
        part = end;
        col += kColumnsTogether;
      }
      for (; part < end; col += parts_[part++].width) {
        DecodePart<T>(*arrays_[part], parts_[part].kind, {part, col, parts_[part].width, first, count, out_}, bad);
      }
    }
  }

 private:
  bool IsPlainGroup(std::size_t part) const {
    if (!std::is_same_v<T, float> || part + kColumnsTogether > parts_.size()) return false;
    return std::all_of(&plain_[part], &plain_[part] + kColumnsTogether,
                       [](const T* values) { return values != nullptr; });
  }

  /// False if a value is not finite: then each of them must be checked.
  bool DecodeTogether(std::size_t part, std::size_t col, std::size_t first, std::size_t count) const {
    if constexpr (std::is_same_v<T, float>) {
      std::array<const float*, kColumnsTogether> columns = {};
      for (std::size_t i = 0; i < kColumnsTogether; ++i) columns[i] = plain_[part + i] + first;
      return TransposeFinite(columns, count, out_.row(first).data() + col, out_.stride());
    } else {
      return false;
    }
  }

  const std::vector<FeaturePart>& parts_;
  MatrixView<T> out_;
  std::vector<std::shared_ptr<arrow::Array>> arrays_;
  std::vector<const T*> plain_;  // by part
};

}  // namespace

bool IsIntegerType(const arrow::DataType& type) {
  return arrow::is_integer(type.id());
}

bool IsNumberType(const arrow::DataType& type) {
  return arrow::is_floating(type.id()) || arrow::is_integer(type.id()) || arrow::is_decimal(type.id()) ||
         type.id() == arrow::Type::BOOL;
}

bool IsFeatureType(const arrow::DataType& type) {
  return IsNumberType(type) || arrow::is_base_binary_like(type.id());
}

template <typename T>
std::vector<BadCell> DecodeFeatures(const arrow::RecordBatch& batch, const std::vector<FeaturePart>& parts,
                                    MatrixView<T> out, const BadCellRequest& request) {
  const ColumnsToRows<T> columns(batch, parts, out);
  std::vector<std::vector<BadCell>> bad_of_task(out.rows() / kRowsPerTask + 1);
  ParallelForBlocks(out.rows(), kRowsPerTask, [&](std::size_t first, std::size_t count) {
    std::vector<BadCell>& bad = bad_of_task[first / kRowsPerTask];
    columns.Decode(first, count, bad);
    if (!bad.empty()) KeepFirst(bad, request);
  });
  std::vector<BadCell> bad;
  for (std::vector<BadCell>& of_task : bad_of_task) {
    std::move(of_task.begin(), of_task.end(), std::back_inserter(bad));
    if (bad.size() >= request.most) break;
  }
  KeepFirst(bad, request);
  return bad;
}

template std::vector<BadCell> DecodeFeatures<double>(const arrow::RecordBatch&, const std::vector<FeaturePart>&,
                                                     MatrixView<double>, const BadCellRequest&);
template std::vector<BadCell> DecodeFeatures<float>(const arrow::RecordBatch&, const std::vector<FeaturePart>&,
                                                    MatrixView<float>, const BadCellRequest&);

// Sparse features.

namespace {

struct Element {
  std::int32_t column = 0;
  double value = 0;
};

template <typename ArrayType>
std::optional<std::string> TakeIndices(const ArrayType& indices, std::int64_t begin, std::vector<Element>& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::int64_t place = begin + static_cast<std::int64_t>(i);
    if (indices.IsNull(place)) return absl::StrCat("the index at ", i, " is missing");
    const std::optional<double> index = NumberAt(indices, place);
    if (!index || !(*index >= 0 && *index < kLargestLibsvmIndex)) {
      return absl::StrCat("the index at ", i, " is not between 0 and ", kLargestLibsvmIndex - 1);
    }
    row[i].column = static_cast<std::int32_t>(*index);
  }
  return std::nullopt;
}

template <typename ArrayType>
std::optional<std::string> TakeValues(const ArrayType& values, std::int64_t begin, std::vector<Element>& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::int64_t place = begin + static_cast<std::int64_t>(i);
    if (values.IsNull(place)) return absl::StrCat("at ", i, ": ", kMissingValue);
    const std::optional<double> value = NumberAt(values, place);
    if (!value || !std::isfinite(*value)) return absl::StrCat("at ", i, ": ", ComplaintAt(values, place));
    row[i].value = *value;
  }
  return std::nullopt;
}

std::optional<std::string> TakeRow(const ListColumn& indices, const ListColumn& values, std::int64_t index,
                                   std::vector<Element>& row) {
  if (!indices.IsThere(index) || !values.IsThere(index)) return "the list is missing";
  if (indices.LengthOf(index) != values.LengthOf(index)) {
    return absl::StrCat("there are ", indices.LengthOf(index), " indices and ", values.LengthOf(index), " values");
  }
  row.resize(indices.LengthOf(index));
  std::optional<std::string> complaint;
  VisitNumberArray(indices.elements(),
                   [&](const auto& typed) { complaint = TakeIndices(typed, indices.BeginOf(index), row); });
  if (complaint) return complaint;
  VisitNumberArray(values.elements(),
                   [&](const auto& typed) { complaint = TakeValues(typed, values.BeginOf(index), row); });
  if (complaint) return complaint;
  std::sort(row.begin(), row.end(), [](const Element& a, const Element& b) { return a.column < b.column; });
  const auto twice = std::adjacent_find(row.begin(), row.end(),
                                        [](const Element& a, const Element& b) { return a.column == b.column; });
  if (twice != row.end()) return absl::StrCat("the index ", twice->column, " comes twice");
  return std::nullopt;
}

}  // namespace

std::vector<BadCell> DecodeSparse(const arrow::RecordBatch& batch, const FeaturePart& pair, SparseMatrix& out,
                                  const BadCellRequest& request) {
  const ListColumn indices(*batch.column(pair.column)), values(*batch.column(pair.values_column));
  std::vector<BadCell> bad;
  std::vector<Element> row;
  for (std::int64_t index = 0; index < batch.num_rows(); ++index) {
    if (auto complaint = TakeRow(indices, values, index, row)) {
      if (bad.size() < request.most) bad.push_back({static_cast<std::size_t>(index), 0, *std::move(complaint)});
      row.clear();
    }
    for (const Element& element : row) {
      out.columns.push_back(element.column);
      out.values.push_back(element.value);
    }
    if (!row.empty()) out.cols = std::max(out.cols, static_cast<std::size_t>(row.back().column) + 1);
    out.offsets.push_back(out.values.size());
  }
  return bad;
}

}  // namespace fulcrum::ingest
