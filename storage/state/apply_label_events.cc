// How events about labels, and what is said of items, change the state.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

absl::Status CampaignState::Change(const Event& event, const LabelSubmitted& submitted) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(submitted.item));
  if (FindVote(*item, event.annotator) != nullptr) {
    return absl::DataLossError(absl::StrCat("'", event.annotator, "' answered item '", submitted.item, "' before"));
  }
  std::int64_t answered = submitted.slot;
  if (FindLease(submitted.lease) != nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(const Lease lease, EndLease(submitted.lease));
    if (lease.item != submitted.item)
      return absl::DataLossError(absl::StrCat("its lease is for item '", lease.item, "'"));
    FreeSlot(*item, lease.slot);
    answered = lease.slot;
  } else {
    ++totals_.late_labels;
  }
  item->votes.push_back({.annotator = event.annotator, .value = submitted.value, .sequence = event.sequence});
  ++totals_.labels;
  totals_.cost += submitted.cost;
  // A late answer whose slot somebody else has leased meanwhile leaves that lease alone.
  Slot* const slot = MutableSlot(*item, answered);
  if (slot != nullptr && slot->status != SlotStatus::kLeased) CloseSlot(*item, *slot, SlotStatus::kAnswered);
  Reconsider(*item, event.sequence);
  // Slots of closed rounds are kept while they are leased only.
  std::erase_if(item->slots, [&](const Slot& other) {
    return other.lease == 0 && !(InOpenRound(*item) && other.round == item->round);
  });
  return absl::OkStatus();
}

absl::StatusOr<Vote*> CampaignState::ExistingVote(Item& item, const std::string& annotator) {
  const auto vote = std::find_if(item.votes.begin(), item.votes.end(),
                                 [&](const Vote& candidate) { return candidate.annotator == annotator; });
  if (vote != item.votes.end() && !vote->withdrawn) return &*vote;
  return absl::DataLossError(absl::StrCat("'", annotator, "' has no label on item '", item.id, "'"));
}

absl::Status CampaignState::Change(const Event& event, const LabelChanged& changed) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(changed.item));
  FULCRUM_ASSIGN_OR_RETURN(Vote* const vote, ExistingVote(*item, event.annotator));
  vote->sequence = event.sequence;
  vote->value = changed.value;
  Reconsider(*item, event.sequence);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const LabelWithdrawn& withdrawn) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(withdrawn.item));
  FULCRUM_ASSIGN_OR_RETURN(Vote* const vote, ExistingVote(*item, event.annotator));
  vote->sequence = event.sequence;
  vote->withdrawn = true;
  Reconsider(*item, event.sequence);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const LabelImported& imported) {
  if (imported.value.empty()) return absl::DataLossError("it has no value");
  Item& item = Touch(imported.item);
  item.imported = imported.value;
  ++totals_.imported;
  Reconsider(item, event.sequence);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const ItemSetAside& set_aside) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(set_aside.item));
  if (item->status == ItemStatus::kLabeled) return absl::DataLossError("the item is labeled");
  SetStatus(*item, ItemStatus::kSetAside);
  item->reason = set_aside.reason;
  MatchSlots(*item, 0);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const ItemReturned& returned) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(returned.item));
  if (item->status != ItemStatus::kSetAside) return absl::DataLossError("the item is not set aside");
  item->reason.clear();
  item->bad_reports = 0;
  for (Slot& slot : item->slots) slot.attempts = 0;
  SetStatus(*item, ItemStatus::kInPool);
  Reconsider(*item, event.sequence);
  return absl::OkStatus();
}

}  // namespace fulcrum::storage
