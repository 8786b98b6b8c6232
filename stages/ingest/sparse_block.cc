// The sparse half of feature_block.h.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "arrow/record_batch.h"
#include "stages/ingest/cell_complaint.h"
#include "stages/ingest/feature_block.h"
#include "stages/ingest/libsvm_line.h"
#include "stages/ingest/list_column.h"
#include "stages/ingest/number_array.h"

namespace fulcrum::ingest {
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
