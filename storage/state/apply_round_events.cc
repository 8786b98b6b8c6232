// How events about the campaign and its rounds change the state, and what items go through when they do.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/campaign_state.h"
#include "storage/state/vote_rules.h"

namespace fulcrum::storage {

// Nobody could renew a lease or answer while the store was closed, and a wall clock that was set in between looks the
// same: that time counts neither for leases nor for the round. The gap is negative if the clock was set back, so that
// leases taken while it was ahead end after the time that they had left.
absl::Status CampaignState::Change(const Event& event, const StoreOpened& opened) {
  const std::chrono::microseconds gap = opened.gap;
  if ((gap.count() < 0 || event.at < last_time_) && event.at - last_time_ != gap) {
    return absl::DataLossError("its gap is negative, or should be, and does not match its time");
  }
  expiries_.clear();
  for (auto& [id, lease] : leases_) {
    lease.expires_at += gap;
    expiries_.insert({lease.expires_at, id});
    Touch(lease.item);
  }
  if (open_round() != nullptr) {
    rounds_.back().started_at += gap;
    changes_.rounds.insert(rounds_.back().number);
  }
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const SettingsChanged& changed) {
  FULCRUM_ASSIGN_OR_RETURN(settings_, SettingsFromText(changed.settings));
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const LifeChanged& changed) {
  life_ = changed.life;
  life_reason_ = changed.reason;
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const BatchCommitted& committed) {
  if (open_round() != nullptr) return absl::DataLossError("the round before is still open");
  const std::int64_t expected = rounds_.empty() ? 1 : rounds_.back().number + 1;
  if (committed.round != expected) return absl::DataLossError(absl::StrCat("the next round is ", expected));
  rounds_.push_back(
      {.number = committed.round, .started_at = event.at, .based_on = committed.based_on, .files = committed.files});
  changes_.rounds.insert(committed.round);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const ItemBatched& batched) {
  if (open_round() == nullptr || rounds_.back().number != batched.round) {
    return absl::DataLossError(absl::StrCat("round ", batched.round, " is not open"));
  }
  Item& item = Touch(batched.item);
  if (item.status != ItemStatus::kInPool) return absl::DataLossError("the item is not in the pool");
  Round& round = rounds_.back();
  item.round = batched.round;
  item.rank = batched.rank;
  item.cost = batched.cost;
  item.status = ItemStatus::kOffered;
  ++round.items;
  round.item_ids.push_back(batched.item);
  changes_.rounds.insert(batched.round);
  Reconsider(item, event.sequence);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const RoundClosed& closed) {
  if (open_round() == nullptr || rounds_.back().number != closed.round) {
    return absl::DataLossError(absl::StrCat("round ", closed.round, " is not open"));
  }
  Round& round = rounds_.back();
  const std::vector<std::string> ids = std::exchange(round.item_ids, {});
  round.open = false;
  round.closed_at = event.at;
  round.reason = closed.reason;
  changes_.rounds.insert(round.number);
  for (const std::string& id : ids) {
    Item& item = Touch(id);
    for (Slot& slot : item.slots) {
      if (slot.status == SlotStatus::kOpen) CloseSlot(item, slot, SlotStatus::kClosed);
    }
    // Only a straggler's slot is still of use.
    std::erase_if(item.slots, [](const Slot& slot) { return slot.lease == 0; });
    if (item.status == ItemStatus::kOffered) item.status = ItemStatus::kInPool;
  }
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const ModelStored& stored) {
  if (stored.trained_on > last_sequence_) return absl::DataLossError("it was trained on events that are yet to come");
  models_.push_back({.sequence = event.sequence,
                     .round = stored.round,
                     .trained_on = stored.trained_on,
                     .file = stored.file,
                     .checksum = stored.checksum,
                     .record = stored.record,
                     .at = event.at});
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const RowsAppended& appended) {
  if (appended.rows < 0) return absl::DataLossError("it is of fewer than no rows");
  // A request that brought nothing new is in the log for its answer alone.
  if (appended.rows > 0) {
    appended_.push_back({.sequence = event.sequence, .folder = appended.folder, .rows = appended.rows});
  }
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const RetrainRequested& /*requested*/) {
  retrain_requested_ = event.sequence;
  return absl::OkStatus();
}

Item& CampaignState::Touch(const std::string& id) {
  Item& item = items_[id];
  if (item.id.empty()) item.id = id;
  changes_.items.Add(item);
  return item;
}

absl::StatusOr<Item*> CampaignState::Existing(const std::string& id) {
  const auto found = items_.find(id);
  if (found == items_.end()) return absl::DataLossError(absl::StrCat("no item '", id, "'"));
  changes_.items.Add(found->second);
  return &found->second;
}

bool CampaignState::InOpenRound(const Item& item) const {
  return open_round() != nullptr && rounds_.back().number == item.round;
}

void CampaignState::SetStatus(Item& item, ItemStatus status) {
  if (InOpenRound(item)) {
    Round& round = rounds_.back();
    const auto count = [&](ItemStatus of, std::int64_t change) {
      if (of == ItemStatus::kLabeled) round.labeled += change;
      if (of == ItemStatus::kDisputed) round.disputed += change;
      if (of == ItemStatus::kSetAside) round.set_aside += change;
    };
    count(item.status, -1);
    count(status, 1);
    changes_.rounds.insert(round.number);
  }
  item.status = status;
}

void CampaignState::SetLabel(Item& item, const std::string& value, std::int64_t sequence) {
  if (item.status != ItemStatus::kLabeled || item.value != value) item.decided_sequence = sequence;
  SetStatus(item, ItemStatus::kLabeled);
  item.value = value;
  item.reason.clear();
}

void CampaignState::Reconsider(Item& item, std::int64_t sequence) {
  const VoteVerdict verdict = JudgeVotes(item.votes, settings_);
  if (!item.imported.empty()) {
    SetLabel(item, item.imported, sequence);
  } else if (verdict.outcome == VoteOutcome::kDecided) {
    SetLabel(item, verdict.value, sequence);
  } else {
    item.value.clear();
    item.decided_sequence = 0;
    if (verdict.outcome == VoteOutcome::kDisputed) {
      SetStatus(item, ItemStatus::kDisputed);
    } else if (item.status != ItemStatus::kSetAside) {
      SetStatus(item, InOpenRound(item) ? ItemStatus::kOffered : ItemStatus::kInPool);
    }
  }
  MatchSlots(item, item.status == ItemStatus::kOffered ? verdict.votes_wanted : 0);
}

// Slots of the open round that can still bring an answer should be as many as the answers that are wanted. Leases are
// never taken away for that, so there may be more.
void CampaignState::MatchSlots(Item& item, std::int64_t wanted) {
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

CampaignState::OpenSlotKey CampaignState::KeyOfSlot(const Item& item, const Slot& slot) {
  return {slot.passes, slot.round, item.rank, item.id, slot.number};
}

void CampaignState::OpenSlot(Item& item, Slot& slot) {
  slot.status = SlotStatus::kOpen;
  open_slots_.insert(KeyOfSlot(item, slot));
}

void CampaignState::CloseSlot(Item& item, Slot& slot, SlotStatus status) {
  if (slot.status == SlotStatus::kOpen) open_slots_.erase(KeyOfSlot(item, slot));
  slot.status = status;
}

Slot* CampaignState::MutableSlot(Item& item, std::int64_t number) {
  const auto found =
      std::find_if(item.slots.begin(), item.slots.end(), [&](const Slot& slot) { return slot.number == number; });
  return found == item.slots.end() ? nullptr : &*found;
}

}  // namespace fulcrum::storage
