#include "storage/state/item_queries.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

std::optional<double> ConfidenceOf(const CampaignState& state, const Item& item) {
  const std::optional<Opinion> opinion = OpinionOf(item.votes, state.settings(), state.crowd(), state.VoiceOn(item.id));
  return opinion ? std::optional(opinion->confidence) : std::nullopt;
}

}  // namespace

bool Matches(const Item& item, const std::string& search) {
  if (search.empty()) return true;
  const auto contains = [&](const std::string& text) { return absl::StrContains(absl::AsciiStrToLower(text), search); };
  return contains(item.id) || contains(item.value) || contains(item.reason) ||
         std::any_of(item.votes.begin(), item.votes.end(), [&](const Vote& vote) { return contains(vote.annotator); });
}

absl::StatusOr<std::vector<FoundItem>> ListItems(Ledger& ledger, const ListItemsRequest& request) {
  const ItemTable& items = ledger.state().items();
  std::vector<FoundItem> found;
  for (const ItemStatus status : request.statuses) {
    // Only offered items are leased.
    if (request.leased == true && status != ItemStatus::kOffered) continue;
    std::size_t taken = 0;
    items.VisitStatus(status, request.after, [&](const Item& item) {
      const bool leased = ItemSet::IsLeased(item);
      if (request.leased.value_or(leased) != leased || !Matches(item, request.search)) return true;
      found.push_back({item, leased, ConfidenceOf(ledger.state(), item)});
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
      found.push_back({*item, ItemSet::IsLeased(*item), ConfidenceOf(ledger.state(), *item)});
    } else {
      found.emplace_back().item.id = id;
    }
  }
  return found;
}

}  // namespace fulcrum::storage
