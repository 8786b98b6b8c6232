// Questions about items, answered at one point of the log. Run by the store like the lease rules; they change nothing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/state/campaign_records.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {

struct FoundItem {
  Item item = {};
  bool leased = false;  ///< it is offered, and at least one worker has it
};

struct ListItemsRequest {
  std::vector<ItemStatus> statuses = {};
  std::optional<bool> leased = {};  ///< only those that are, or are not, leased
  std::string after = {};           ///< only ids after this one
  std::size_t most = 0;
};
/// In the order of their ids.
absl::StatusOr<std::vector<FoundItem>> ListItems(Ledger& ledger, const ListItemsRequest& request);

struct FindItemsRequest {
  std::vector<std::string> ids = {};
};
/// In the order of the request. An item that was never batched or labeled is one in the pool, without votes.
absl::StatusOr<std::vector<FoundItem>> FindItems(Ledger& ledger, const FindItemsRequest& request);

}  // namespace fulcrum::storage
