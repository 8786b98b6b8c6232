#include "storage/state/item_queries.h"

#include <algorithm>

namespace fulcrum::storage {

absl::StatusOr<std::vector<FoundItem>> ListItems(Ledger& ledger, const ListItemsRequest& request) {
  const ItemTable& items = ledger.state().items();
  std::vector<absl::string_view> ids;
  for (const ItemStatus status : request.statuses) {
    const auto& all = items.IdsOf(status);
    std::size_t taken = 0;
    for (auto id = all.upper_bound(request.after); id != all.end() && taken < request.most; ++id) {
      if (request.leased && *request.leased != items.IsLeased(*items.Find(*id))) continue;
      ids.push_back(*id);
      ++taken;
    }
  }
  std::sort(ids.begin(), ids.end());
  if (ids.size() > request.most) ids.resize(request.most);
  std::vector<FoundItem> found;
  found.reserve(ids.size());
  for (const absl::string_view id : ids) {
    const Item& item = *items.Find(id);
    found.push_back({item, items.IsLeased(item)});
  }
  return found;
}

absl::StatusOr<std::vector<FoundItem>> FindItems(Ledger& ledger, const FindItemsRequest& request) {
  const ItemTable& items = ledger.state().items();
  std::vector<FoundItem> found;
  found.reserve(request.ids.size());
  for (const std::string& id : request.ids) {
    const Item* const item = items.Find(id);
    if (item != nullptr) {
      found.push_back({*item, items.IsLeased(*item)});
    } else {
      found.emplace_back().item.id = id;
    }
  }
  return found;
}

}  // namespace fulcrum::storage
