#include "storage/state/item_table.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

StatusChange ChangeOf(const Item& item, ItemStatus before) {
  return {.round = item.round, .from = before, .to = item.status};
}

bool InOpenRound(const Item& item, const ItemTable::Moment& moment) {
  return moment.open_round != 0 && item.round == moment.open_round;
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

struct Tally {
  const std::string* value;
  std::int64_t count;
};
// An item has a handful of votes: a linear search costs less than any map.
using Tallies = absl::InlinedVector<Tally, 4>;

Tallies CountVotes(std::span<const Vote> votes) {
  Tallies tallies;
  for (const Vote& vote : votes) {
    if (vote.withdrawn) continue;
    const auto same = [&](const Tally& tally) { return *tally.value == vote.value; };
    const auto found = std::find_if(tallies.begin(), tallies.end(), same);
    if (found == tallies.end()) {
      tallies.push_back({&vote.value, 1});
    } else {
      ++found->count;
    }
  }
  return tallies;
}

}  // namespace

VoteVerdict JudgeVotes(std::span<const Vote> votes, const CampaignSettings& settings) {
  Tally leader = {nullptr, 0};
  std::int64_t second = 0;
  std::int64_t total = 0;
  for (const Tally& tally : CountVotes(votes)) {
    total += tally.count;
    second = std::max(second, std::min(leader.count, tally.count));
    if (tally.count > leader.count) leader = tally;
  }
  if (total < settings.overlap) return {.votes_wanted = settings.overlap - total};
  const bool decided = leader.value != nullptr && leader.count - second >= settings.margin;
  if (decided) return {.outcome = VoteOutcome::kDecided, .value = *leader.value};
  if (total >= settings.most_votes) return {.outcome = VoteOutcome::kDisputed};
  return {.votes_wanted = 1};
}

absl::StatusOr<StatusChange> ItemTable::Batch(const ItemBatched& batched, const Moment& moment) {
  Item& item = FindOrCreate(batched.item, moment.sequence);
  if (item.status != ItemStatus::kInPool) return absl::DataLossError("the item is not in the pool");
  item.round = batched.round;
  item.rank = batched.rank;
  item.cost = batched.cost;
  return Reconsider(item, item.status, moment);
}

void ItemTable::CloseRound(const std::vector<std::string>& items) {
  for (const std::string& id : items) {
    Item* const found = Lookup(id);
    if (found == nullptr) continue;
    Item& item = *found;
    Touch(item);
    for (Slot& slot : item.slots) {
      if (slot.status == SlotStatus::kOpen) CloseSlot(item, slot, SlotStatus::kClosed);
    }
    std::erase_if(item.slots, [](const Slot& slot) { return slot.lease == 0; });
    if (item.status == ItemStatus::kOffered) item.status = ItemStatus::kInPool;
  }
}

absl::StatusOr<const Item*> ItemTable::LeaseSlot(const LeaseGranted& granted, std::int64_t lease) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(granted.item));
  Slot* const slot = MutableSlot(*item, granted.slot);
  if (slot == nullptr || slot->status != SlotStatus::kOpen) {
    return absl::DataLossError(absl::StrCat("slot ", granted.slot, " of item '", granted.item, "' is not open"));
  }
  if (granted.epoch <= slot->epoch) {
    return absl::DataLossError(absl::StrCat("epoch ", granted.epoch, " does not come after epoch ", slot->epoch));
  }
  CloseSlot(*item, *slot, SlotStatus::kLeased);
  slot->lease = lease;
  slot->epoch = granted.epoch;
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
  return ChangeOf(item, before);
}

absl::StatusOr<StatusChange> ItemTable::AddVote(const LabelSubmitted& submitted, const std::string& annotator,
                                                const Lease* lease, const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(submitted.item));
  if (FindVote(*item, annotator) != nullptr) {
    return absl::DataLossError(absl::StrCat("'", annotator, "' answered item '", submitted.item, "' before"));
  }
  if (lease != nullptr) FreeSlot(*item, lease->slot);
  item->votes.push_back({.annotator = annotator, .value = submitted.value, .sequence = moment.sequence});
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
  vote->value = changed.value;
  return Reconsider(*item, item->status, moment);
}

absl::StatusOr<StatusChange> ItemTable::WithdrawVote(const LabelWithdrawn& withdrawn, const std::string& annotator,
                                                     const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(withdrawn.item));
  FULCRUM_ASSIGN_OR_RETURN(Vote* const vote, ExistingVote(*item, annotator));
  vote->sequence = moment.sequence;
  vote->withdrawn = true;
  return Reconsider(*item, item->status, moment);
}

absl::StatusOr<StatusChange> ItemTable::Import(const LabelImported& imported, const Moment& moment) {
  if (imported.value.empty()) return absl::DataLossError("it has no value");
  Item& item = FindOrCreate(imported.item, moment.sequence);
  item.imported = imported.value;
  return Reconsider(item, item.status, moment);
}

absl::StatusOr<StatusChange> ItemTable::SetAside(const ItemSetAside& set_aside) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(set_aside.item));
  if (item->status == ItemStatus::kLabeled) return absl::DataLossError("the item is labeled");
  const ItemStatus before = std::exchange(item->status, ItemStatus::kSetAside);
  item->reason = set_aside.reason;
  MatchSlots(*item, 0);
  return ChangeOf(*item, before);
}

absl::StatusOr<StatusChange> ItemTable::Return(const ItemReturned& returned, const Moment& moment) {
  FULCRUM_ASSIGN_OR_RETURN(Item* const item, Existing(returned.item));
  if (item->status != ItemStatus::kSetAside) return absl::DataLossError("the item is not set aside");
  item->reason.clear();
  item->bad_reports = 0;
  for (Slot& slot : item->slots) slot.attempts = 0;
  const ItemStatus before = std::exchange(item->status, ItemStatus::kInPool);
  return Reconsider(*item, before, moment);
}

void ItemTable::MarkChanged(const std::string& id) {
  if (Item* const item = Lookup(id)) Touch(*item);
}

const Item* ItemTable::Find(absl::string_view id) const {
  return Lookup(id);
}

const Slot* ItemTable::FindSlot(const Item& item, std::int64_t number) {
  for (const Slot& slot : item.slots) {
    if (slot.number == number) return &slot;
  }
  return nullptr;
}

const Vote* ItemTable::FindVote(const Item& item, absl::string_view annotator) {
  for (const Vote& vote : item.votes) {
    if (vote.annotator == annotator) return &vote;
  }
  return nullptr;
}

void ItemTable::Visit(const std::function<void(const Item&)>& visit) const {
  for (const auto& [id, item] : items_) visit(item);
  if (base_ == nullptr) return;
  base_->VisitItems([&](const StoredItem& stored) {
    if (!items_.contains(stored.item.id)) visit(stored.item);
  });
}

std::vector<DecidedLabel> ItemTable::DecidedLabels() const {
  std::vector<DecidedLabel> labels;
  Visit([&](const Item& item) {
    if (item.status == ItemStatus::kLabeled) labels.push_back({item.id, item.value, item.decided_sequence});
  });
  // An event decides at most one item, so no two labels have the same sequence.
  std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return labels;
}

void ItemTable::VisitOpenSlots(const std::function<bool(const Item&, const Slot&)>& visit) const {
  for (const OpenSlotKey& key : open_slots_) {
    const Item& item = *Find(std::get<3>(key));
    if (!visit(item, *FindSlot(item, std::get<4>(key)))) return;
  }
}

Item& ItemTable::Insert(Item item) const {
  std::string id = item.id;
  return items_.emplace(std::move(id), std::move(item)).first->second;
}

Item* ItemTable::Lookup(absl::string_view id) const {
  const auto found = items_.find(id);
  if (found != items_.end()) return &found->second;
  if (base_ == nullptr) return nullptr;
  auto stored = base_->FindItem(id);
  return stored ? &Insert(std::move(stored->item)) : nullptr;
}

void ItemTable::Touch(Item& item) {
  if (keeps_) before_.try_emplace(&item, item);
  changed_.Add(item);
}

Item& ItemTable::FindOrCreate(const std::string& id, std::int64_t sequence) {
  Item* item = Lookup(id);
  if (item == nullptr) {
    item = &Insert({.id = id, .first_sequence = sequence});
    ++size_;
    if (keeps_) before_.try_emplace(item, std::nullopt);
  }
  Touch(*item);
  return *item;
}

absl::StatusOr<Item*> ItemTable::Existing(const std::string& id) {
  Item* const item = Lookup(id);
  if (item == nullptr) return absl::DataLossError(absl::StrCat("no item '", id, "'"));
  Touch(*item);
  return item;
}

void ItemTable::Begin() {
  keeps_ = true;
}

void ItemTable::Accept() {
  keeps_ = false;
  before_.clear();
}

void ItemTable::RollBack() {
  for (auto& [item, before] : before_) {
    for (const Slot& slot : item->slots) {
      if (slot.status == SlotStatus::kOpen) open_slots_.erase(KeyOf(*item, slot));
    }
    if (!before) {
      changed_.Forget(*item);
      --size_;
      items_.erase(std::string(item->id));
      continue;
    }
    *item = *std::move(before);
    for (const Slot& slot : item->slots) {
      if (slot.status == SlotStatus::kOpen) open_slots_.insert(KeyOf(*item, slot));
    }
  }
  Accept();
}

void ItemTable::ReadFrom(Checkpoint& base, std::size_t items, LeaseTable& leases) {
  const auto load = [&](StoredItem stored) {
    const Item& item = Insert(std::move(stored.item));
    for (const Slot& slot : item.slots) {
      if (slot.status == SlotStatus::kOpen) open_slots_.insert(KeyOf(item, slot));
    }
    for (Lease& lease : stored.leases) leases.Grant(std::move(lease));
  };
  base.VisitItems(load, Checkpoint::Which::kLive);
  base_ = &base;
  size_ = items;
}

void ItemTable::LoadAll() {
  if (base_ == nullptr) return;
  base_->VisitItems([this](StoredItem stored) { Insert(std::move(stored.item)); });
  base_ = nullptr;
}

StatusChange ItemTable::Reconsider(Item& item, ItemStatus before, const Moment& moment) {
  const VoteVerdict verdict = JudgeVotes(item.votes, moment.settings);
  if (!item.imported.empty()) {
    SetLabel(item, item.imported, moment.sequence);
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
  return ChangeOf(item, before);
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

ItemTable::OpenSlotKey ItemTable::KeyOf(const Item& item, const Slot& slot) {
  return {slot.passes, slot.round, item.rank, item.id, slot.number};
}

void ItemTable::OpenSlot(Item& item, Slot& slot) {
  slot.status = SlotStatus::kOpen;
  open_slots_.insert(KeyOf(item, slot));
}

void ItemTable::CloseSlot(Item& item, Slot& slot, SlotStatus status) {
  if (slot.status == SlotStatus::kOpen) open_slots_.erase(KeyOf(item, slot));
  slot.status = status;
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
