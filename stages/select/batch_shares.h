// How a batch is divided among the classes. METHOD section 1: b_c = b / C; what is left over goes to the
// classes with the fewest labels; a class that runs out gives its share to the others by the same rule.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace fulcrum::select {

/// The share of each class. Sums to `batch`, or to all that is available where that is less. Among classes with
/// equally many labels the smaller index comes first.
std::vector<std::size_t> DivideBatch(std::size_t batch, std::span<const std::size_t> labeled_counts,
                                     std::span<const std::size_t> available_counts);

}  // namespace fulcrum::select
