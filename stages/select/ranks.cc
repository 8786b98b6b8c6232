#include "stages/select/ranks.h"

#include <algorithm>
#include <numeric>

namespace fulcrum::select {

std::vector<double> ScaledRanks(std::span<const double> values) {
  const std::size_t size = values.size();
  if (size == 1) return {0.5};
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(size);
  for (std::size_t first = 0, last = 0; first < size; first = last) {
    while (last < size && values[order[last]] == values[order[first]]) ++last;
    const double mean_rank = 0.5 * static_cast<double>(first + last - 1);
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = mean_rank / static_cast<double>(size - 1);
  }
  return ranks;
}

}  // namespace fulcrum::select
