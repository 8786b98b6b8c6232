// How events about leases change the state.

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

absl::Status CampaignState::Change(const Event& event, const LeaseGranted& granted) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(granted.item));
  Slot* const slot = MutableSlot(*item, granted.slot);
  if (slot == nullptr || slot->status != SlotStatus::kOpen) {
    return absl::DataLossError(absl::StrCat("slot ", granted.slot, " of item '", granted.item, "' is not open"));
  }
  if (granted.epoch <= slot->epoch) {
    return absl::DataLossError(absl::StrCat("epoch ", granted.epoch, " does not come after epoch ", slot->epoch));
  }
  if (!MayAnswer(*item, event.annotator)) {
    return absl::DataLossError(absl::StrCat("'", event.annotator, "' may not answer item '", granted.item, "'"));
  }
  CloseSlot(*item, *slot, SlotStatus::kLeased);
  slot->lease = event.sequence;
  slot->epoch = granted.epoch;
  const Lease lease = {.id = event.sequence,
                       .item = granted.item,
                       .slot = granted.slot,
                       .epoch = granted.epoch,
                       .annotator = event.annotator,
                       .round = granted.round,
                       .expires_at = granted.expires_at,
                       .cost = item->cost};
  leased_cost_ += lease.cost;
  expiries_.insert({lease.expires_at, lease.id});
  leases_.emplace(lease.id, lease);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const LeaseRenewed& renewed) {
  const auto found = leases_.find(renewed.lease);
  if (found == leases_.end()) return absl::DataLossError(absl::StrCat("lease ", renewed.lease, " is not live"));
  Lease& lease = found->second;
  expiries_.erase({lease.expires_at, lease.id});
  lease.expires_at = renewed.expires_at;
  expiries_.insert({lease.expires_at, lease.id});
  Touch(lease.item);
  return absl::OkStatus();
}

absl::StatusOr<Lease> CampaignState::EndLease(std::int64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return absl::DataLossError(absl::StrCat("lease ", id, " is not live"));
  Lease lease = std::move(found->second);
  leases_.erase(found);
  expiries_.erase({lease.expires_at, lease.id});
  // Rounding errors end with the last lease.
  leased_cost_ = leases_.empty() ? 0 : leased_cost_ - lease.cost;
  return lease;
}

Slot& CampaignState::FreeSlot(Item& item, std::int64_t number) {
  Slot& slot = *MutableSlot(item, number);
  slot.lease = 0;
  slot.status = SlotStatus::kClosed;
  return slot;
}

absl::Status CampaignState::Change(const Event& /*event*/, const LeaseReleased& released) {
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, EndLease(released.lease));
  Item& item = Touch(lease.item);
  FreeSlot(item, lease.slot);
  ReopenSlot(item, lease.slot);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const LeaseExpired& expired) {
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, EndLease(expired.lease));
  Item& item = Touch(lease.item);
  ++FreeSlot(item, lease.slot).attempts;
  ++totals_.expired_leases;
  ReopenSlot(item, lease.slot);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const TaskSkipped& skipped) {
  FULCRUM_ASSIGN_OR_RETURN(const SkipReason reason, ParseSkipReason(skipped.reason));
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, EndLease(skipped.lease));
  Item& item = Touch(lease.item);
  Slot& slot = FreeSlot(item, lease.slot);
  ++totals_.skips;
  if (reason == SkipReason::kNotNow) {
    ++slot.passes;
  } else {
    ++slot.attempts;
    item.declined_by.push_back(lease.annotator);
    if (reason == SkipReason::kBadItem) ++item.bad_reports;
  }
  ReopenSlot(item, lease.slot);
  return absl::OkStatus();
}

void CampaignState::ReopenSlot(Item& item, std::int64_t number) {
  Slot& slot = *MutableSlot(item, number);
  const bool of_open_round = InOpenRound(item) && slot.round == item.round;
  if (!of_open_round) {
    std::erase_if(item.slots, [&](const Slot& other) { return other.number == number; });
  } else if (item.status == ItemStatus::kOffered) {
    OpenSlot(item, slot);
    // An answer may have come in by another way while this slot was leased.
    Reconsider(item, last_sequence_ + 1);
  }
}

}  // namespace fulcrum::storage
