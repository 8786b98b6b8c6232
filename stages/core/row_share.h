// How the rows of a pool are divided among the processes of a cluster.
//
// A rank has consecutive rows, and shares begin at multiples of a unit that depends on the size of the pool alone. Sums
// over rows are formed within units first, so that they do not depend on the number of ranks. Pure functions,
// thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace fulcrum {

/// The rows of a unit: few enough for even shares, and so many that a unit is worth a matrix product.
inline std::size_t RowsPerUnit(std::size_t total) {
  constexpr std::size_t kFewest = 512, kMost = 8192, kUnits = 64;
  return std::clamp(std::bit_floor(total / kUnits), kFewest, kMost);
}

struct RowShare {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t total = 0;  ///< rows of the pool
};

/// The share of a rank; empty if there are more ranks than units.
inline RowShare ShareOfRank(std::size_t total, std::size_t rank, std::size_t ranks) {
  const std::size_t unit = RowsPerUnit(total), units = (total + unit - 1) / unit;
  const std::size_t first = std::min(total, units * rank / ranks * unit);
  const std::size_t end = std::min(total, units * (rank + 1) / ranks * unit);
  return {.first = first, .count = end - first, .total = total};
}

}  // namespace fulcrum
