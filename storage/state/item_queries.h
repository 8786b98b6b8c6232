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
  bool leased = false;                    ///< it is offered, and at least one worker has it
  std::optional<double> confidence = {};  ///< probability of the most probable class given its votes
};

struct ListItemsRequest {
  std::vector<ItemStatus> statuses = {};
  std::optional<bool> leased = {};  ///< only those that are, or are not, leased
  std::string after = {};           ///< only ids after this one
  std::string search = {};          ///< only those that match it
  std::size_t most = 0;
};
/// Whether the id, the label, the reason or an annotator contains the text, which is in lower case. All match "".
bool Matches(const Item& item, const std::string& search);
/// In the order of their ids.
absl::StatusOr<std::vector<FoundItem>> ListItems(Ledger& ledger, const ListItemsRequest& request);

struct FindItemsRequest {
  std::vector<std::string> ids = {};
};
/// In the order of the request. An item that was never batched or labeled is one in the pool, without votes.
absl::StatusOr<std::vector<FoundItem>> FindItems(Ledger& ledger, const FindItemsRequest& request);

}  // namespace fulcrum::storage
