#include "stages/select/batch_shares.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace fulcrum::select {
namespace {

std::vector<std::size_t> FewestLabelsFirst(std::span<const std::size_t> labeled_counts) {
  std::vector<std::size_t> order(labeled_counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return labeled_counts[a] < labeled_counts[b]; });
  return order;
}

}  // namespace

std::vector<std::size_t> DivideBatch(std::size_t batch, std::span<const std::size_t> labeled_counts,
                                     std::span<const std::size_t> available_counts) {
  assert(labeled_counts.size() == available_counts.size());
  std::vector<std::size_t> shares(labeled_counts.size(), 0);
  std::vector<std::size_t> open = FewestLabelsFirst(labeled_counts);
  while (batch > 0 && !open.empty()) {
    const std::size_t even_share = batch / open.size();
    const std::size_t left_over = batch % open.size();
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::size_t wanted = even_share + (i < left_over ? 1 : 0);
      const std::size_t given = std::min(wanted, available_counts[open[i]] - shares[open[i]]);
      shares[open[i]] += given;
      batch -= given;
    }
    std::erase_if(open, [&](std::size_t index) { return shares[index] == available_counts[index]; });
  }
  return shares;
}

}  // namespace fulcrum::select
