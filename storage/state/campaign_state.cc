#include "storage/state/campaign_state.h"

#include <algorithm>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {

absl::Status CampaignState::Apply(const Event& event) {
  absl::Status status;
  if (event.sequence != last_sequence_ + 1) {
    status = absl::DataLossError(absl::StrCat("it should follow event ", last_sequence_));
  } else if (event.at < last_time_ && !std::holds_alternative<StoreOpened>(event.body)) {
    status = absl::DataLossError("its time is before that of the event before");
  }
  if (status.ok()) status = NoteRequest(event);
  if (status.ok()) status = std::visit([&](const auto& body) { return Change(event, body); }, event.body);
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat("event ", event.sequence, " (", EventKindName(KindOf(event.body)),
                                            ") of the log cannot have happened: ", status.message()));
  }
  last_sequence_ = event.sequence;
  last_time_ = event.at;
  return absl::OkStatus();
}

// Two independent hashes, so that two requests never pass for one: strings would take several times the memory.
CampaignState::RequestKey CampaignState::KeyOfRequest(absl::string_view annotator, absl::string_view request_id) {
  using Salted = std::tuple<int, absl::string_view, absl::string_view>;
  return {absl::Hash<Salted>()(Salted(1, annotator, request_id)),
          absl::Hash<Salted>()(Salted(2, request_id, annotator))};
}

absl::Status CampaignState::NoteRequest(const Event& event) {
  if (event.request_id.empty()) {
    last_request_ = {};
    return absl::OkStatus();
  }
  const RequestKey key = KeyOfRequest(event.annotator, event.request_id);
  const bool first = requests_.emplace(key, event.sequence).second;
  // One request may cause several events, but only in a row.
  const bool repeated = !first && key != last_request_;
  last_request_ = key;
  if (!repeated) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("request '", event.request_id, "' of '", event.annotator, "' took effect before"));
}

std::optional<std::int64_t> CampaignState::FindRequest(absl::string_view annotator,
                                                       absl::string_view request_id) const {
  const auto found = requests_.find(KeyOfRequest(annotator, request_id));
  if (found == requests_.end()) return std::nullopt;
  return found->second;
}

const Round* CampaignState::open_round() const {
  return rounds_.empty() || !rounds_.back().open ? nullptr : &rounds_.back();
}

const Item* CampaignState::FindItem(absl::string_view id) const {
  const auto found = items_.find(id);
  return found == items_.end() ? nullptr : &found->second;
}

const Slot* CampaignState::FindSlot(const Item& item, std::int64_t number) {
  for (const Slot& slot : item.slots) {
    if (slot.number == number) return &slot;
  }
  return nullptr;
}

const Vote* CampaignState::FindVote(const Item& item, absl::string_view annotator) {
  for (const Vote& vote : item.votes) {
    if (vote.annotator == annotator) return &vote;
  }
  return nullptr;
}

const Lease* CampaignState::FindLease(std::int64_t id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

std::optional<Time> CampaignState::NextExpiry() const {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

std::vector<std::int64_t> CampaignState::LeasesDue(Time now) const {
  std::vector<std::int64_t> due;
  for (const auto& [expires_at, lease] : expiries_) {
    if (expires_at > now) break;
    due.push_back(lease);
  }
  return due;
}

void CampaignState::VisitOpenSlots(const std::function<bool(const Item&, const Slot&)>& visit) const {
  for (const OpenSlotKey& key : open_slots_) {
    const Item& item = items_.at(std::get<3>(key));
    if (!visit(item, *FindSlot(item, std::get<4>(key)))) return;
  }
}

bool CampaignState::MayAnswer(const Item& item, absl::string_view annotator) const {
  if (FindVote(item, annotator) != nullptr) return false;
  const auto& declined = item.declined_by;
  if (std::find(declined.begin(), declined.end(), annotator) != declined.end()) return false;
  return std::none_of(item.slots.begin(), item.slots.end(), [&](const Slot& slot) {
    return slot.lease != 0 && leases_.at(slot.lease).annotator == annotator;
  });
}

std::vector<DecidedLabel> CampaignState::DecidedLabels() const {
  std::vector<DecidedLabel> labels;
  for (const auto& [id, item] : items_) {
    if (item.status == ItemStatus::kLabeled) labels.push_back({id, item.value, item.decided_sequence});
  }
  // One event can decide one item only, so the order is complete.
  std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  return labels;
}

CampaignStatus StatusOf(const CampaignState& state) {
  CampaignStatus status = {.last_sequence = state.last_sequence(),
                           .last_time = state.last_time(),
                           .life = state.life(),
                           .life_reason = state.life_reason(),
                           .totals = state.totals(),
                           .live_leases = state.leases().size(),
                           .open_slots = state.open_slots(),
                           .touched_items = state.items().size(),
                           .next_expiry = state.NextExpiry()};
  if (!state.rounds().empty()) {
    const Round& round = state.rounds().back();
    status.round = round.number;
    status.round_open = round.open;
    status.round_items = round.items;
    status.round_labeled = round.labeled;
    status.round_settled = round.settled();
    status.round_due = round.open && JudgeRound(state.settings().policy, round.progress(), state.last_time()).advance;
  }
  return status;
}

}  // namespace fulcrum::storage
