// The ids a user knows the rows of a pool by.
//
// Either given, as text exactly as in the file, or the row numbers from 0. Immutable and thread-safe after
// construction.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "stages/core/rows.h"

namespace fulcrum::ingest {

class RowIds {
 public:
  RowIds() = default;
  /// Row numbers.
  explicit RowIds(std::size_t rows) : rows_(rows) {}
  /// Given ids. Where one comes twice, FindRepeated says which and Find gives the first.
  explicit RowIds(std::vector<std::string> ids);
  RowIds(RowIds&&) = default;
  RowIds& operator=(RowIds&&) = default;

  std::size_t size() const { return rows_; }
  bool are_row_numbers() const { return ids_.empty(); }
  std::string TextOf(RowIndex row) const;
  std::optional<RowIndex> Find(absl::string_view id) const;

  struct Repeated {
    RowIndex first = 0;
    RowIndex again = 0;
  };
  /// Rows whose id an earlier row has, at most `most`.
  std::vector<Repeated> FindRepeated(std::size_t most) const;

 private:
  std::size_t rows_ = 0;
  std::vector<std::string> ids_;
  // Keys view ids_, whose strings do not move when the vector is moved.
  absl::flat_hash_map<absl::string_view, RowIndex> row_of_id_;
};

}  // namespace fulcrum::ingest
