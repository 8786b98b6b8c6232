// The ids a user knows the rows of a pool by.
//
// Either given, as text exactly as in the file, or the row numbers from 0. Given ids may lie in a file that is mapped
// into memory: nothing is read before the first lookup of an id, which builds an index of 8 bytes per row. Ids with
// others behind them share the index of the first ones, so that adding a few costs little.
// Immutable and thread-safe after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "arrow/type_fwd.h"
#include "stages/core/rows.h"

namespace fulcrum::ingest {

class RowIds {
 public:
  RowIds() = default;
  /// Row numbers.
  explicit RowIds(std::size_t rows) : rows_(rows) {}
  /// Given ids. Where one comes twice, FindRepeated says which and Find gives the first.
  explicit RowIds(const std::vector<std::string>& ids);
  /// Given ids in arrow::StringArrays, one after the other.
  explicit RowIds(std::vector<std::shared_ptr<arrow::Array>> ids);
  RowIds(RowIds&&) = default;
  RowIds& operator=(RowIds&&) = default;

  /// These rows and the ones of `more` behind them. Both have given ids, or both are row numbers, which then go on.
  RowIds With(const RowIds& more) const;

  std::size_t size() const { return rows_; }
  bool are_row_numbers() const { return chunks_.empty(); }
  std::string TextOf(RowIndex row) const;
  std::optional<RowIndex> Find(absl::string_view id) const;

  struct Repeated {
    RowIndex first = 0;
    RowIndex again = 0;
  };
  /// Rows whose id an earlier row has, at most `most`.
  std::vector<Repeated> FindRepeated(std::size_t most) const;

 private:
  /// The index of adjacent rows. Entries have a hash in their upper half and a row in their lower one, ascending.
  struct Index {
    Index(std::size_t first_row, std::size_t rows) : first(first_row), count(rows) {}
    const std::size_t first, count;
    std::once_flag made;
    std::vector<std::uint64_t> entries;
  };

  absl::string_view ViewOf(RowIndex row) const;
  /// Of an index of these ids, or of ids that begin with all that it covers.
  const std::vector<std::uint64_t>& EntriesOf(Index& index) const;

  std::size_t rows_ = 0;
  std::vector<std::shared_ptr<arrow::Array>> chunks_;
  std::vector<std::size_t> chunk_begins_;        // first row of each
  std::vector<std::shared_ptr<Index>> indices_;  // of all rows, in order
};

}  // namespace fulcrum::ingest
