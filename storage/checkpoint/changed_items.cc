#include "storage/checkpoint/changed_items.h"

#include <algorithm>
#include <utility>

namespace fulcrum::storage {
namespace {

// Sorting these takes a few milliseconds.
constexpr std::size_t kMostSortedAtOnce = 32'768;

}  // namespace

std::vector<const Item*> ChangedItems::Take(std::size_t most) {
  if (waiting_.empty()) {
    const auto fresh = std::exchange(fresh_, {});
    waiting_.assign(fresh.begin(), fresh.end());
  }
  if (sorted_ == 0) {
    sorted_ = std::min(kMostSortedAtOnce, waiting_.size());
    std::sort(waiting_.end() - static_cast<std::ptrdiff_t>(sorted_), waiting_.end(),
              [](const Item* a, const Item* b) { return a->id > b->id; });
  }
  const std::size_t count = std::min(most, sorted_);
  std::vector<const Item*> taken(waiting_.rbegin(), waiting_.rbegin() + static_cast<std::ptrdiff_t>(count));
  waiting_.resize(waiting_.size() - count);
  sorted_ -= count;
  return taken;
}

absl::flat_hash_set<std::string> ChangedItems::Ids() const {
  absl::flat_hash_set<std::string> ids;
  for (const Item* item : fresh_) ids.insert(item->id);
  for (const Item* item : waiting_) ids.insert(item->id);
  return ids;
}

}  // namespace fulcrum::storage
