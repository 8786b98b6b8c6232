// Types for the examples of a pool and their classes.
#pragma once

#include <cstdint>
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
RowList RowsOnlyIn(std::span<const RowIndex> rows, std::span<const RowIndex> others);

/// Returns one value per row of `rows`: the previous value of a row that was in `rows_before`, otherwise the next value
/// of `values_of_new`, in their order.
std::vector<double> CarryValues(std::span<const RowIndex> rows, std::span<const RowIndex> rows_before,
                                std::span<const double> values_before, std::span<const double> values_of_new);

}  // namespace fulcrum
