// What every stage calls the examples of a pool and their classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fulcrum {

/// Position of an example in its pool. User-facing ids are mapped to it at the edges of the program.
using RowIndex = std::uint32_t;

/// Index into the campaign's sorted list of class names.
using ClassIndex = std::int32_t;

/// The class of an example nobody has labeled.
inline constexpr ClassIndex kUnlabeled = -1;

using RowList = std::vector<RowIndex>;

// What changed between two sets of rows, both ascending. Pure functions, thread-safe.

/// The rows that are not among the others.
RowList RowsOnlyIn(std::span<const RowIndex> rows, std::span<const RowIndex> others);

/// The values of `rows_before` moved to the places of the same rows in `rows`; those of other rows come from
/// `values_of_new`, in their order.
std::vector<double> CarryValues(std::span<const RowIndex> rows, std::span<const RowIndex> rows_before,
                                std::span<const double> values_before, std::span<const double> values_of_new);

}  // namespace fulcrum
