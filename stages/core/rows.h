// Types for the examples of a pool and their classes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

namespace fulcrum {

/// Position of an example in its pool. User-facing ids are mapped to it at the boundaries of the program.
using RowIndex = std::uint32_t;

/// Index into the campaign's sorted list of class names.
using ClassIndex = std::int32_t;

/// The class of an unlabeled example.
inline constexpr ClassIndex kUnlabeled = -1;

using RowList = std::vector<RowIndex>;

// Changes between two sets of rows, both ascending. Pure functions, thread-safe.

/// Returns the rows that are not in the other set.
inline RowList RowsOnlyIn(std::span<const RowIndex> rows, std::span<const RowIndex> others) {
  RowList only;
  std::set_difference(rows.begin(), rows.end(), others.begin(), others.end(), std::back_inserter(only));
  return only;
}

/// Returns one value per row of `rows`: the previous value of a row that was in `rows_before`, otherwise the next value
/// of `values_of_new`, in their order.
inline std::vector<double> CarryValues(std::span<const RowIndex> rows, std::span<const RowIndex> rows_before,
                                       std::span<const double> values_before, std::span<const double> values_of_new) {
  std::vector<double> values;
  values.reserve(rows.size());
  std::size_t before = 0, fresh = 0;
  for (const RowIndex row : rows) {
    while (before < rows_before.size() && rows_before[before] < row) ++before;
    const bool stayed = before < rows_before.size() && rows_before[before] == row;
    values.push_back(stayed ? values_before[before] : values_of_new[fresh++]);
  }
  return values;
}

}  // namespace fulcrum
