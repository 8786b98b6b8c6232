// What changed between two sets of rows, both ascending. Pure functions, thread-safe.
#pragma once

#include <span>
#include <vector>

#include "stages/core/rows.h"

namespace fulcrum {

/// The rows that are not among the others.
RowList RowsOnlyIn(std::span<const RowIndex> rows, std::span<const RowIndex> others);

/// The values of `rows_before` moved to the places of the same rows in `rows`; those of other rows come from
/// `values_of_new`, in their order.
std::vector<double> CarryValues(std::span<const RowIndex> rows, std::span<const RowIndex> rows_before,
                                std::span<const double> values_before, std::span<const double> values_of_new);

}  // namespace fulcrum
