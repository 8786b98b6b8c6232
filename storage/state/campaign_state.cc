#include "storage/state/campaign_state.h"

#include <algorithm>
#include <tuple>

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

// Two independent hashes, so that two requests never have the same key; strings would take several times the memory.
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
  // A request may cause several events, but only consecutive ones.
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

bool CampaignState::MayAnswer(const Item& item, absl::string_view annotator) const {
  if (ItemTable::FindVote(item, annotator) != nullptr) return false;
  const auto& declined = item.declined_by;
  if (std::find(declined.begin(), declined.end(), annotator) != declined.end()) return false;
  return std::none_of(item.slots.begin(), item.slots.end(), [&](const Slot& slot) {
    return slot.lease != 0 && leases_.Find(slot.lease)->annotator == annotator;
  });
}

void CampaignState::ForgetChanges() {
  items_.changed() = {};
  rounds_.ForgetChanges();
}

ItemTable::Moment CampaignState::MomentOf(const Event& event) const {
  const Round* const open = rounds_.open();
  return {.settings = settings_, .open_round = open == nullptr ? 0 : open->number, .sequence = event.sequence};
}

absl::Status CampaignState::Count(const absl::StatusOr<StatusChange>& change) {
  if (change.ok()) rounds_.Count(*change);
  return change.status();
}

// While the store was closed, no lease could be renewed and no task answered, and the clock may have been set: that
// time counts neither for leases nor for the round. The gap is negative if the clock was set back, so that leases that
// were taken while it was ahead keep the time that they had left.
absl::Status CampaignState::Change(const Event& event, const StoreOpened& opened) {
  const std::chrono::microseconds gap = opened.gap;
  if ((gap.count() < 0 || event.at < last_time_) && event.at - last_time_ != gap) {
    return absl::DataLossError("its gap is negative, or should be, and does not match its time");
  }
  leases_.Shift(gap);
  leases_.Visit([this](const Lease& lease) { items_.MarkChanged(lease.item); });
  rounds_.Shift(gap);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const SettingsChanged& changed) {
  FULCRUM_ASSIGN_OR_RETURN(settings_, SettingsFromText(changed.settings));
  // More or fewer votes may be needed now.
  for (const StatusChange& change : items_.ReconsiderOffered(MomentOf(event))) rounds_.Count(change);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const LifeChanged& changed) {
  FULCRUM_ASSIGN_OR_RETURN(life_, ParseLife(changed.life));
  life_by_ = event.annotator;
  life_reason_ = changed.reason;
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const BatchCommitted& committed) {
  return rounds_.Open(committed, event.at);
}

absl::Status CampaignState::Change(const Event& event, const ItemBatched& batched) {
  FULCRUM_RETURN_IF_ERROR(rounds_.AddItem(batched));
  return Count(items_.Batch(batched, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const RoundClosed& closed) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> items, rounds_.Close(closed, event.at));
  items_.CloseRound(items);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const ModelStored& stored) {
  if (stored.trained_on > last_sequence_) return absl::DataLossError("it was trained on events that are yet to come");
  rounds_.AddModel({.sequence = event.sequence,
                    .round = stored.round,
                    .trained_on = stored.trained_on,
                    .file = stored.file,
                    .checksum = stored.checksum,
                    .record = stored.record,
                    .at = event.at});
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const RowsAppended& appended) {
  if (appended.rows < 0) return absl::DataLossError("the number of rows is negative");
  // A request that added nothing is in the log for its answer only.
  if (appended.rows > 0) {
    appended_.push_back({.sequence = event.sequence, .folder = appended.folder, .rows = appended.rows});
  }
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const RetrainRequested& /*requested*/) {
  retrain_requested_ = event.sequence;
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const LeaseGranted& granted) {
  const Item* const wanted = items_.Find(granted.item);
  if (wanted != nullptr && !MayAnswer(*wanted, event.annotator)) {
    return absl::DataLossError(absl::StrCat("'", event.annotator, "' may not answer item '", granted.item, "'"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const Item* const item, items_.LeaseSlot(granted, event.sequence));
  leases_.Grant({.id = event.sequence,
                 .item = granted.item,
                 .slot = granted.slot,
                 .epoch = granted.epoch,
                 .annotator = event.annotator,
                 .round = granted.round,
                 .expires_at = granted.expires_at,
                 .cost = item->cost});
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const LeaseRenewed& renewed) {
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, leases_.Renew(renewed));
  items_.MarkChanged(lease.item);
  return absl::OkStatus();
}

absl::Status CampaignState::EndLease(const Event& event, std::int64_t id, ItemTable::Unanswered how) {
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, leases_.End(id));
  return Count(items_.ReturnSlot(lease, how, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const LeaseReleased& released) {
  return EndLease(event, released.lease, ItemTable::Unanswered::kReleased);
}

absl::Status CampaignState::Change(const Event& event, const LeaseExpired& expired) {
  ++totals_.expired_leases;
  return EndLease(event, expired.lease, ItemTable::Unanswered::kExpired);
}

absl::Status CampaignState::Change(const Event& event, const TaskSkipped& skipped) {
  FULCRUM_ASSIGN_OR_RETURN(const SkipReason reason, ParseSkipReason(skipped.reason));
  ++totals_.skips;
  return EndLease(event, skipped.lease,
                  reason == SkipReason::kNotNow    ? ItemTable::Unanswered::kNotNow
                  : reason == SkipReason::kBadItem ? ItemTable::Unanswered::kBadItem
                                                   : ItemTable::Unanswered::kUnsure);
}

absl::Status CampaignState::Change(const Event& event, const LabelSubmitted& submitted) {
  const Lease* const lease = leases_.Find(submitted.lease);
  if (lease != nullptr && lease->item != submitted.item) {
    return absl::DataLossError(absl::StrCat("its lease is for item '", lease->item, "'"));
  }
  FULCRUM_RETURN_IF_ERROR(Count(items_.AddVote(submitted, event.annotator, lease, MomentOf(event))));
  ++totals_.labels;
  totals_.cost += submitted.cost;
  if (lease != nullptr) return leases_.End(submitted.lease).status();
  ++totals_.late_labels;
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const LabelChanged& changed) {
  return Count(items_.ChangeVote(changed, event.annotator, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const LabelWithdrawn& withdrawn) {
  return Count(items_.WithdrawVote(withdrawn, event.annotator, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const LabelImported& imported) {
  ++totals_.imported;
  return Count(items_.Import(imported, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& /*event*/, const ItemSetAside& set_aside) {
  return Count(items_.SetAside(set_aside));
}

absl::Status CampaignState::Change(const Event& event, const ItemReturned& returned) {
  return Count(items_.Return(returned, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& /*event*/, const ItemDisputed& disputed) {
  return Count(items_.Dispute(disputed));
}

absl::Status CampaignState::Change(const Event& event, const ItemResolved& resolved) {
  return Count(items_.Resolve(resolved, MomentOf(event)));
}

CampaignStatus StatusOf(const CampaignState& state) {
  CampaignStatus status = {.last_sequence = state.last_sequence(),
                           .last_time = state.last_time(),
                           .life = state.life(),
                           .life_reason = state.life_reason(),
                           .life_by = state.life_by(),
                           .totals = state.totals(),
                           .live_leases = state.leases().size(),
                           .open_slots = state.items().open_slots(),
                           .touched_items = state.items().size(),
                           .items_by_status = state.items().counts(),
                           .leased_items = state.items().leased(),
                           .last_label_sequence = state.items().last_label_sequence(),
                           .next_expiry = state.leases().NextExpiry()};
  if (const Round* const round = state.rounds().last()) {
    status.round = round->number;
    status.round_open = round->open;
    status.round_items = round->items;
    status.round_labeled = round->labeled;
    status.round_settled = round->settled();
    status.round_due = round->open && JudgeRound(state.settings().policy, round->progress(), state.last_time()).advance;
  }
  return status;
}

}  // namespace fulcrum::storage
