#include "stages/ingest/row_ids.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace fulcrum::ingest {

RowIds::RowIds(std::vector<std::string> ids) : rows_(ids.size()), ids_(std::move(ids)) {
  row_of_id_.reserve(rows_);
  for (std::size_t row = 0; row < rows_; ++row) row_of_id_.try_emplace(ids_[row], static_cast<RowIndex>(row));
}

std::string RowIds::TextOf(RowIndex row) const {
  return are_row_numbers() ? absl::StrCat(row) : ids_[row];
}

std::optional<RowIndex> RowIds::Find(absl::string_view id) const {
  if (are_row_numbers()) {
    RowIndex row = 0;
    // Only the number's usual form: "007" and "+7" may be meant for ids that this pool does not have.
    if (!absl::SimpleAtoi(id, &row) || row >= rows_ || absl::StrCat(row) != id) return std::nullopt;
    return row;
  }
  const auto found = row_of_id_.find(id);
  if (found == row_of_id_.end()) return std::nullopt;
  return found->second;
}

std::vector<RowIds::Repeated> RowIds::FindRepeated(std::size_t most) const {
  std::vector<Repeated> repeated;
  if (row_of_id_.size() == ids_.size()) return repeated;
  for (std::size_t row = 0; row < ids_.size() && repeated.size() < most; ++row) {
    const RowIndex first = row_of_id_.at(ids_[row]);
    if (first != row) repeated.push_back({first, static_cast<RowIndex>(row)});
  }
  return repeated;
}

}  // namespace fulcrum::ingest
