#include "storage/state/campaign_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {

absl::Status CampaignState::Apply(const Event& event) {
  absl::Status status;
  if (event.sequence != figures_.last_sequence + 1) {
    status = absl::DataLossError(absl::StrCat("it should follow event ", figures_.last_sequence));
  } else if (event.at < figures_.last_time && !std::holds_alternative<StoreOpened>(event.body)) {
    status = absl::DataLossError("its time is before that of the event before");
  }
  if (status.ok()) status = requests_.Note(event);
  if (status.ok()) status = std::visit([&](const auto& body) { return Change(event, body); }, event.body);
  if (!status.ok()) {
    return absl::DataLossError(absl::StrCat("event ", event.sequence, " (", EventKindName(KindOf(event.body)),
                                            ") of the log cannot have happened: ", status.message()));
  }
  figures_.last_sequence = event.sequence;
  figures_.last_time = event.at;
  return absl::OkStatus();
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
  requests_.ForgetNew();
}

void CampaignState::Begin() {
  figures_before_ = figures_;
  items_.Begin();
  leases_.Begin();
  rounds_.Begin();
  requests_.Begin();
}

void CampaignState::Accept() {
  items_.Accept();
  leases_.Accept();
  rounds_.Accept();
}

void CampaignState::RollBack() {
  figures_ = *std::move(figures_before_);
  items_.RollBack();
  leases_.RollBack();
  rounds_.RollBack();
  requests_.RollBack();
}

ItemTable::Moment CampaignState::MomentOf(const Event& event) const {
  const Round* const open = rounds_.open();
  return {.settings = figures_.settings, .open_round = open == nullptr ? 0 : open->number, .sequence = event.sequence};
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
  if ((gap.count() < 0 || event.at < figures_.last_time) && event.at - figures_.last_time != gap) {
    return absl::DataLossError("its gap is negative, or should be, and does not match its time");
  }
  leases_.Shift(gap);
  leases_.Visit([this](const Lease& lease) { items_.MarkChanged(lease.item); });
  rounds_.Shift(gap);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const SettingsChanged& changed) {
  FULCRUM_ASSIGN_OR_RETURN(figures_.settings, SettingsFromText(changed.settings));
  // More or fewer votes may be needed now.
  for (const StatusChange& change : items_.ReconsiderOffered(MomentOf(event))) rounds_.Count(change);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const LifeChanged& changed) {
  FULCRUM_ASSIGN_OR_RETURN(figures_.life, ParseLife(changed.life));
  figures_.life_by = event.annotator;
  figures_.life_reason = changed.reason;
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
  if (stored.trained_on > figures_.last_sequence)
    return absl::DataLossError("it was trained on events that are yet to come");
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
    figures_.appended.push_back({.sequence = event.sequence, .folder = appended.folder, .rows = appended.rows});
  }
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const RetrainRequested& /*requested*/) {
  figures_.retrain_requested = event.sequence;
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
  ++figures_.totals.expired_leases;
  return EndLease(event, expired.lease, ItemTable::Unanswered::kExpired);
}

absl::Status CampaignState::Change(const Event& event, const TaskSkipped& skipped) {
  FULCRUM_ASSIGN_OR_RETURN(const SkipReason reason, ParseSkipReason(skipped.reason));
  ++figures_.totals.skips;
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
  ++figures_.totals.labels;
  figures_.totals.cost += submitted.cost;
  if (lease != nullptr) return leases_.End(submitted.lease).status();
  ++figures_.totals.late_labels;
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const LabelChanged& changed) {
  return Count(items_.ChangeVote(changed, event.annotator, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const LabelWithdrawn& withdrawn) {
  return Count(items_.WithdrawVote(withdrawn, event.annotator, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const LabelImported& imported) {
  ++figures_.totals.imported;
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

}  // namespace fulcrum::storage
