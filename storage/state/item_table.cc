#include "storage/state/item_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

bool InOpenRound(const Item& item, const ItemTable::Moment& moment) {
  return moment.open_round != 0 && item.round == moment.open_round;
}

std::optional<Opinion> OpinionNow(const Item& item, const ItemTable::Moment& moment) {
  return OpinionOf(item.votes, moment.settings, moment.crowd, VoiceOn(moment.voices, item.id));
}

/// The open round is to bring it another vote, besides those of earlier rounds.
bool IsAskedAgain(const Item& item, const ItemTable::Moment& moment) {
  return InOpenRound(item, moment) && std::none_of(item.slots.begin(), item.slots.end(), [&](const Slot& slot) {
           return slot.round == item.round && slot.status == SlotStatus::kAnswered;
         });
}

VoteVerdict VerdictNow(const Item& item, const ItemTable::Moment& moment) {
  return JudgeVotes(item.votes, moment.settings, moment.crowd, VoiceOn(moment.voices, item.id),
                    IsAskedAgain(item, moment));
}

/// A label by votes of different worth outlives its round: it may have been accepted with less confidence than was
/// wanted, and a vote that arrives late must not take it away. No annotator would be asked again.
bool KeepsLabel(const Item& item, const ItemTable::Moment& moment) {
  if (moment.settings.consensus != CampaignSettings::Consensus::kDawidSkene) return false;
  if (item.status != ItemStatus::kLabeled || InOpenRound(item, moment)) return false;
  return OpinionNow(item, moment).has_value();
}

void SetLabel(Item& item, const std::string& value, std::int64_t sequence) {
  if (item.status != ItemStatus::kLabeled || item.value != value) item.decided_sequence = sequence;
  item.status = ItemStatus::kLabeled;
  item.value = value;
  item.reason.clear();
}

/// The label of this annotator, unless it was withdrawn.
absl::StatusOr<Vote*> ExistingVote(Item& item, const std::string& annotator) {
  const auto vote = std::find_if(item.votes.begin(), item.votes.end(),
                                 [&](const Vote& candidate) { return candidate.annotator == annotator; });
  if (vote != item.votes.end() && !vote->withdrawn) return &*vote;
  return absl::DataLossError(absl::StrCat("'", annotator, "' has no label on item '", item.id, "'"));
}

}  // namespace

absl::StatusOr<StatusChange> ItemTable::Batch(const ItemBatched& batched, const Moment& moment) {
  Item& item = FindOrCreate(batched.item, moment.sequence);
  const ItemStatus before = item.status;
  const bool again = before == ItemStatus::kLabeled && item.imported.empty();
  if (before != ItemStatus::kInPool && !again) {
    return absl::DataLossError("the item is neither in the pool nor labeled by votes");
  }
  item.round = batched.round;
  item.rank = batched.rank;
  item.cost = batched.cost;
  StatusChange change = Reconsider(item, before, moment);
  // Its label is from before the round.
  change.from = ItemStatus::kInPool;
  return change;
}

absl::Status ItemTable::Take(const ItemTaken& taken, std::int64_t sequence) {
  Item& item = FindOrCreate(taken.item, sequence);
  if (item.status != ItemStatus::kInPool) return absl::DataLossError("the item is not in the pool");
  item.cost = taken.cost;
  Note(item, item.status);
  return absl::OkStatus();
}

void ItemTable::CloseRound(const std::vector<std::string>& items) {
  for (const std::string& id : items) {
    const absl::StatusOr<Item*> found = Existing(id);
    // Missing only if the checkpoint is damaged, which the ledger notices.
    if (!found.ok()) continue;
    Item& item = **found;
    for (Slot& slot : item.slots) {
      if (slot.status == SlotStatus::kOpen) CloseSlot(item, slot, SlotStatus::kClosed);
    }
    std::erase_if(item.slots, [](const Slot& slot) { return slot.lease == 0; });
    if (item.status != ItemStatus::kOffered) continue;
    item.status = ItemStatus::kInPool;
    Note(item, ItemStatus::kOffered);
  }
}

absl::StatusOr<const Item*> ItemTable::LeaseSlot(const LeaseGranted& granted, std::int64_t lease) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(granted.item));
  Slot* slot = MutableSlot(*item, granted.slot);
  if (slot == nullptr && !item->imported.empty() && granted.slot == item->next_slot) {
    // The answer is known: a slot exists only while an annotator has it.
    item->slots.push_back({.number = item->next_slot++});
    slot = &item->slots.back();
  }
  if (slot == nullptr || slot->status != SlotStatus::kOpen) {
    return absl::DataLossError(absl::StrCat("slot ", granted.slot, " of item '", granted.item, "' is not open"));
  }
  if (granted.epoch <= slot->epoch) {
    return absl::DataLossError(absl::StrCat("epoch ", granted.epoch, " does not come after epoch ", slot->epoch));
  }
  CloseSlot(*item, *slot, SlotStatus::kLeased);
  slot->lease = lease;
  slot->epoch = granted.epoch;
  Note(*item, item->status);
  return item;
}

absl::StatusOr<StatusChange> ItemTable::ReturnSlot(const Lease& lease, Unanswered how, const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const found, Existing(lease.item));
  Item& item = *found;
  const ItemStatus before = item.status;
  Slot& slot = FreeSlot(item, lease.slot);
  if (how == Unanswered::kNotNow) ++slot.passes;
  if (how == Unanswered::kExpired) ++slot.attempts;
  if (how == Unanswered::kUnsure || how == Unanswered::kBadItem) {
    ++slot.attempts;
    item.declined_by.push_back(lease.annotator);
    NoteAnnotator(lease.annotator);
    if (how == Unanswered::kBadItem) ++item.bad_reports;
  }
  const bool of_open_round = InOpenRound(item, moment) && slot.round == item.round;
  if (!of_open_round) {
    std::erase_if(item.slots, [&](const Slot& other) { return other.number == lease.slot; });
  } else if (item.status == ItemStatus::kOffered) {
    OpenSlot(item, slot);
    // A late answer may have arrived while this slot was leased.
    return Reconsider(item, before, moment);
  }
  return Note(item, before);
}

absl::StatusOr<StatusChange> ItemTable::AddVote(const LabelSubmitted& submitted, const std::string& annotator,
                                                const Lease* lease, const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(submitted.item));
  if (FindVote(*item, annotator) != nullptr) {
    return absl::DataLossError(absl::StrCat("'", annotator, "' answered item '", submitted.item, "' before"));
  }
  if (lease != nullptr) FreeSlot(*item, lease->slot);
  item->votes.push_back({.annotator = annotator, .value = submitted.value, .sequence = moment.sequence});
  NoteAnnotator(annotator);
  NoteLabel(moment.sequence);
  // A late answer does not end the lease that another annotator holds on the slot by now.
  Slot* const slot = MutableSlot(*item, lease != nullptr ? lease->slot : submitted.slot);
  if (slot != nullptr && slot->status != SlotStatus::kLeased) CloseSlot(*item, *slot, SlotStatus::kAnswered);
  const StatusChange change = Reconsider(*item, item->status, moment);
  std::erase_if(item->slots, [&](const Slot& other) {
    return other.lease == 0 && !(InOpenRound(*item, moment) && other.round == item->round);
  });
  return change;
}

absl::StatusOr<StatusChange> ItemTable::ChangeVote(const LabelChanged& changed, const std::string& annotator,
                                                   const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(changed.item));
  FULCRUM_ASSIGN_OR_RETURN(Vote* const vote, ExistingVote(*item, annotator));
  vote->sequence = moment.sequence;
  NoteLabel(moment.sequence);
  vote->value = changed.value;
  return Reconsider(*item, item->status, moment);
}

absl::StatusOr<StatusChange> ItemTable::WithdrawVote(const LabelWithdrawn& withdrawn, const std::string& annotator,
                                                     const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(withdrawn.item));
  FULCRUM_ASSIGN_OR_RETURN(Vote* const vote, ExistingVote(*item, annotator));
  vote->sequence = moment.sequence;
  NoteLabel(moment.sequence);
  vote->withdrawn = true;
  return Reconsider(*item, item->status, moment);
}

absl::StatusOr<StatusChange> ItemTable::Import(const LabelImported& imported, const Moment& moment) {
  if (imported.value.empty()) return absl::DataLossError("it has no value");
  Item& item = FindOrCreate(imported.item, moment.sequence);
  item.imported = imported.value;
  // The event of an item that was in a batch may be from before imported labels had a cost.
  if (imported.cost > 0) item.cost = imported.cost;
  NoteLabel(moment.sequence);
  return Reconsider(item, item.status, moment);
}

absl::StatusOr<StatusChange> ItemTable::SetAside(const ItemSetAside& set_aside) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(set_aside.item));
  if (item->status == ItemStatus::kLabeled) return absl::DataLossError("the item is labeled");
  const ItemStatus before = std::exchange(item->status, ItemStatus::kSetAside);
  item->reason = set_aside.reason;
  MatchSlots(*item, 0);
  return Note(*item, before);
}

absl::StatusOr<StatusChange> ItemTable::Return(const ItemReturned& returned, const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(returned.item));
  if (item->status != ItemStatus::kSetAside && item->status != ItemStatus::kDisputed) {
    return absl::DataLossError("the item is neither set aside nor disputed");
  }
  item->reason.clear();
  item->bad_reports = 0;
  item->declined_by.clear();
  for (Slot& slot : item->slots) slot.attempts = 0;
  const ItemStatus before = std::exchange(item->status, ItemStatus::kInPool);
  return Reconsider(*item, before, moment);
}

absl::StatusOr<StatusChange> ItemTable::Dispute(const ItemDisputed& disputed) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(disputed.item));
  if (item->status != ItemStatus::kOffered) return absl::DataLossError("the item is not offered");
  item->status = ItemStatus::kDisputed;
  item->reason = disputed.reason;
  MatchSlots(*item, 0);
  return Note(*item, ItemStatus::kOffered);
}

absl::StatusOr<StatusChange> ItemTable::Resolve(const ItemResolved& resolved, const Moment& moment) {
  if (resolved.value.empty()) return absl::DataLossError("it has no value");
  Item& item = FindOrCreate(resolved.item, moment.sequence);
  item.imported = resolved.value;
  NoteLabel(moment.sequence);
  return Reconsider(item, item.status, moment);
}

std::vector<StatusChange> ItemTable::ReconsiderOffered(const Moment& moment) {
  std::vector<std::string> offered;
  VisitStatus(ItemStatus::kOffered, "", [&](const Item& item) {
    offered.push_back(item.id);
    return true;
  });
  std::vector<StatusChange> changes;
  for (const std::string& id : offered) {
    changes.push_back(Reconsider(**Existing(id), ItemStatus::kOffered, moment));
  }
  return changes;
}

absl::StatusOr<StatusChange> ItemTable::AcceptVotes(const VotesAccepted& accepted, const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(accepted.item));
  const std::optional<Opinion> opinion = OpinionNow(*item, moment);
  const ItemStatus before = item->status;
  const bool waits = before == ItemStatus::kOffered || before == ItemStatus::kInPool;
  if (!waits || !opinion) return absl::DataLossError("the item has no votes to accept");
  SetLabel(*item, opinion->value, moment.sequence);
  NoteLabel(moment.sequence);
  MatchSlots(*item, 0);
  return Note(*item, before);
}

std::vector<StatusChange> ItemTable::FollowCrowd(const Moment& moment) {
  std::vector<std::string> affected;
  Visit([&](const Item& item) {
    if (item.votes.empty() || !item.imported.empty()) return;
    if (item.status == ItemStatus::kLabeled) {
      const std::optional<Opinion> opinion = OpinionNow(item, moment);
      if (opinion && !opinion->tied && opinion->value != item.value) affected.push_back(item.id);
    } else if (item.status == ItemStatus::kOffered || item.status == ItemStatus::kInPool) {
      const VoteVerdict verdict = VerdictNow(item, moment);
      if (verdict.outcome != VoteOutcome::kUndecided) affected.push_back(item.id);
    }
  });
  // Visit has no order of its own, and an event decides all of them.
  std::sort(affected.begin(), affected.end());
  std::vector<StatusChange> changes;
  for (const std::string& id : affected) {
    Item& item = **Existing(id);
    if (item.status != ItemStatus::kLabeled) {
      changes.push_back(Reconsider(item, item.status, moment));
      continue;
    }
    SetLabel(item, OpinionNow(item, moment)->value, moment.sequence);
    changes.push_back(Note(item, item.status));
  }
  if (!affected.empty()) NoteLabel(moment.sequence);
  return changes;
}

void ItemTable::MarkChanged(const std::string& id) {
  Existing(id).status().IgnoreError();
}

StatusChange ItemTable::Reconsider(Item& item, ItemStatus before, const Moment& moment) {
  const VoteVerdict verdict = VerdictNow(item, moment);
  if (!item.imported.empty()) {
    SetLabel(item, item.imported, moment.sequence);
  } else if (KeepsLabel(item, moment)) {
    const Opinion opinion = *OpinionNow(item, moment);
    SetLabel(item, opinion.tied ? item.value : opinion.value, moment.sequence);
  } else if (verdict.outcome == VoteOutcome::kDecided) {
    SetLabel(item, verdict.value, moment.sequence);
  } else {
    item.value.clear();
    item.decided_sequence = 0;
    if (verdict.outcome == VoteOutcome::kDisputed) {
      item.status = ItemStatus::kDisputed;
    } else if (item.status != ItemStatus::kSetAside) {
      item.status = InOpenRound(item, moment) ? ItemStatus::kOffered : ItemStatus::kInPool;
    }
  }
  MatchSlots(item, item.status == ItemStatus::kOffered ? verdict.votes_wanted : 0);
  return Note(item, before);
}

// An item has as many open or leased slots in the open round as it needs answers. Leases are never revoked for that, so
// there may be more.
void ItemTable::MatchSlots(Item& item, std::int64_t wanted) {
  std::int64_t available = 0;
  for (const Slot& slot : item.slots) {
    const bool waiting = slot.status == SlotStatus::kOpen || slot.status == SlotStatus::kLeased;
    if (slot.round == item.round && waiting) ++available;
  }
  for (Slot& slot : item.slots) {
    if (available <= wanted || slot.status != SlotStatus::kOpen) continue;
    CloseSlot(item, slot, SlotStatus::kClosed);
    --available;
  }
  for (; available < wanted; ++available) {
    item.slots.push_back({.number = item.next_slot++, .round = item.round});
    OpenSlot(item, item.slots.back());
  }
}

Slot* ItemTable::MutableSlot(Item& item, std::int64_t number) {
  return const_cast<Slot*>(FindSlot(item, number));
}

Slot& ItemTable::FreeSlot(Item& item, std::int64_t number) {
  Slot& slot = *MutableSlot(item, number);
  slot.lease = 0;
  slot.status = SlotStatus::kClosed;
  return slot;
}

}  // namespace fulcrum::storage
