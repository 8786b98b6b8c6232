#include "storage/state/item_queries.h"

#include <algorithm>

namespace fulcrum::storage {

absl::StatusOr<std::vector<FoundItem>> ListItems(Ledger& ledger, const ListItemsRequest& request) {
  const ItemTable& items = ledger.state().items();
  std::vector<FoundItem> found;
  for (const ItemStatus status : request.statuses) {
    // Only offered items are leased.
    if (request.leased == true && status != ItemStatus::kOffered) continue;
    std::size_t taken = 0;
    items.VisitStatus(status, request.after, [&](const Item& item) {
      const bool leased = ItemSet::IsLeased(item);
      if (request.leased.value_or(leased) != leased) return true;
      found.push_back({item, leased});
      return ++taken < request.most;
    });
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.item.id < b.item.id; });
  if (found.size() > request.most) found.resize(request.most);
  return found;
}

absl::StatusOr<std::vector<FoundItem>> FindItems(Ledger& ledger, const FindItemsRequest& request) {
  const ItemTable& items = ledger.state().items();
  std::vector<FoundItem> found;
  found.reserve(request.ids.size());
  for (const std::string& id : request.ids) {
    const Item* const item = items.Find(id);
    if (item != nullptr) {
      found.push_back({*item, ItemSet::IsLeased(*item)});
    } else {
      found.emplace_back().item.id = id;
    }
  }
  return found;
}

}  // namespace fulcrum::storage
