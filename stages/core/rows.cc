#include "stages/core/rows.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace fulcrum {

RowList RowsOnlyIn(std::span<const RowIndex> rows, std::span<const RowIndex> others) {
  RowList only;
  std::set_difference(rows.begin(), rows.end(), others.begin(), others.end(), std::back_inserter(only));
  return only;
}

std::vector<double> CarryValues(std::span<const RowIndex> rows, std::span<const RowIndex> rows_before,
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
