// How events about labels, and what is said of items, change the state.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

absl::Status CampaignState::ApplyLabelSubmitted(const Event& event) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(event));
  if (FindVote(*item, event.annotator) != nullptr) {
    return absl::DataLossError(absl::StrCat("'", event.annotator, "' answered item '", event.item, "' before"));
  }
  std::int64_t answered = event.slot;
  if (FindLease(event.lease) != nullptr) {
    FULCRUM_ASSIGN_OR_RETURN(const Lease lease, EndLease(event.lease));
    if (lease.item != event.item) return absl::DataLossError(absl::StrCat("its lease is for item '", lease.item, "'"));
    FreeSlot(*item, lease.slot);
    answered = lease.slot;
  } else {
    ++totals_.late_labels;
  }
  item->votes.push_back({.annotator = event.annotator, .value = event.value, .sequence = event.sequence});
  ++totals_.labels;
  totals_.cost += event.cost;
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

absl::Status CampaignState::ApplyLabelChanged(const Event& event) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(event));
  const auto vote = std::find_if(item->votes.begin(), item->votes.end(),
                                 [&](const Vote& candidate) { return candidate.annotator == event.annotator; });
  if (vote == item->votes.end() || vote->withdrawn) {
    return absl::DataLossError(absl::StrCat("'", event.annotator, "' has no label on item '", event.item, "'"));
  }
  vote->sequence = event.sequence;
  if (event.kind == EventKind::kLabelWithdrawn) {
    vote->withdrawn = true;
  } else {
    vote->value = event.value;
  }
  Reconsider(*item, event.sequence);
  return absl::OkStatus();
}

absl::Status CampaignState::ApplyLabelImported(const Event& event) {
  if (event.value.empty()) return absl::DataLossError("it has no value");
  Item& item = Touch(event.item);
  item.imported = event.value;
  ++totals_.imported;
  Reconsider(item, event.sequence);
  return absl::OkStatus();
}

absl::Status CampaignState::ApplyItemSetAside(const Event& event) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(event));
  if (item->status == ItemStatus::kLabeled) return absl::DataLossError("the item is labeled");
  SetStatus(*item, ItemStatus::kSetAside);
  item->reason = event.reason;
  MatchSlots(*item, 0);
  return absl::OkStatus();
}

absl::Status CampaignState::ApplyItemReturned(const Event& event) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(event));
  if (item->status != ItemStatus::kSetAside) return absl::DataLossError("the item is not set aside");
  item->reason.clear();
  item->bad_reports = 0;
  for (Slot& slot : item->slots) slot.attempts = 0;
  SetStatus(*item, ItemStatus::kInPool);
  Reconsider(*item, event.sequence);
  return absl::OkStatus();
}

}  // namespace fulcrum::storage
