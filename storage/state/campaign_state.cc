#include "storage/state/campaign_state.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {
namespace {

// More known answers than this are labels like others: the list is in memory and in every checkpoint.
constexpr std::size_t kMostGold = 100'000;

/// Whether an item waits anew for an annotator from this event on. That rows were added, a setting was changed or a
/// lease was renewed brings nobody nearer.
template <typename Body>
constexpr bool kIsLabeling =
    std::is_same_v<Body, LabelSubmitted> || std::is_same_v<Body, LabelChanged> ||
    std::is_same_v<Body, LabelWithdrawn> || std::is_same_v<Body, TaskSkipped> || std::is_same_v<Body, LeaseGranted> ||
    std::is_same_v<Body, LeaseReleased> || std::is_same_v<Body, LeaseExpired> || std::is_same_v<Body, BatchCommitted> ||
    std::is_same_v<Body, ItemReturned>;

}  // namespace

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
  const bool labeling =
      std::visit([](const auto& body) { return kIsLabeling<std::remove_cvref_t<decltype(body)>>; }, event.body);
  if (labeling) figures_.last_labeling = event.at;
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

std::span<const double> CampaignState::VoiceOn(absl::string_view item) const {
  return storage::VoiceOn(figures_.voices.get(), item);
}

void CampaignState::ForgetChanges() {
  items_.changed() = {};
  rounds_.ForgetChanges();
  requests_.ForgetNew();
}

void CampaignState::Begin() {
  figures_before_ = figures_;
  gold_before_ = gold_.size();
  items_.Begin();
  activity_.Begin();
  leases_.Begin();
  rounds_.Begin();
  offered_.Begin();
  requests_.Begin();
}

void CampaignState::Accept() {
  items_.Accept();
  activity_.Accept();
  leases_.Accept();
  rounds_.Accept();
  offered_.Accept();
}

void CampaignState::RollBack() {
  figures_ = *std::move(figures_before_);
  gold_.resize(gold_before_);
  items_.RollBack();
  activity_.RollBack();
  leases_.RollBack();
  rounds_.RollBack();
  offered_.RollBack();
  requests_.RollBack();
}

ItemTable::Moment CampaignState::MomentOf(const Event& event) const {
  const Round* const open = rounds_.open();
  return {.settings = figures_.settings,
          .open_round = open == nullptr ? 0 : open->number,
          .sequence = event.sequence,
          .crowd = figures_.crowd.get(),
          .voices = figures_.voices.get()};
}

RoundProgress CampaignState::LastProgress() const {
  const Round* const round = rounds_.last();
  if (round == nullptr) return {};
  RoundProgress progress = round->progress();
  if (round->open) progress.items -= offered_.figures().in_round;
  return progress;
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
  activity_.Shift(gap);
  leases_.Visit([this](const Lease& lease) { items_.MarkChanged(lease.item); });
  rounds_.Shift(gap);
  // Half of the time for which items wait at most: after a long stop somebody can still come, and a store that is
  // opened every day without any event in between does not wait for ever.
  const std::chrono::microseconds counted =
      std::min<std::chrono::microseconds>(gap, figures_.settings.dispute_time / 2);
  if (gap.count() < 0) figures_.last_labeling += gap;
  if (gap > counted) figures_.last_labeling += gap - counted;
  if (figures_.model_task) figures_.model_task->Shift(gap);
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
  // The time in which no process could be asked does not count.
  if (figures_.life == Life::kRunning && figures_.model_task) figures_.model_task->Restart(event.at);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const BatchCommitted& committed) {
  const auto is_decided = [this](const std::string& id) {
    const Item* const item = items_.Find(id);
    return item == nullptr || item->status != ItemStatus::kInPool;
  };
  offered_.OpenRound(is_decided, committed.carried);
  return rounds_.Open(committed, event.at);
}

absl::Status CampaignState::Change(const Event& event, const ItemBatched& batched) {
  FULCRUM_RETURN_IF_ERROR(rounds_.AddItem(batched));
  return Count(items_.Batch(batched, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const RoundClosed& closed) {
  offered_.CloseRound();
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
  activity_.StartWork(event.annotator, event.at);
  leases_.Grant({.id = event.sequence,
                 .item = granted.item,
                 .slot = granted.slot,
                 .epoch = granted.epoch,
                 .annotator = event.annotator,
                 .round = granted.round,
                 .expires_at = granted.expires_at,
                 .cost = CostOf(*item, event.annotator)});
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const LeaseRenewed& renewed) {
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, leases_.Renew(renewed));
  items_.MarkChanged(lease.item);
  return absl::OkStatus();
}

absl::Status CampaignState::EndLease(const Event& event, std::int64_t id, ItemTable::Unanswered how) {
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, leases_.End(id));
  // A task that is given back need not be the one at hand.
  const bool more_tasks = leases_.HeldBy(lease.annotator).leases > 0;
  if (how != ItemTable::Unanswered::kReleased || !more_tasks) {
    activity_.EndWork(lease.annotator, event.at, more_tasks);
  }
  return Count(items_.ReturnSlot(lease, how, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const LeaseReleased& released) {
  return EndLease(event, released.lease, ItemTable::Unanswered::kReleased);
}

absl::Status CampaignState::Change(const Event& event, const LeaseExpired& expired) {
  ++figures_.totals.expired_leases;
  if (const Lease* const lease = leases_.Find(expired.lease)) activity_.Add(lease->annotator, {.expired = 1});
  return EndLease(event, expired.lease, ItemTable::Unanswered::kExpired);
}

absl::Status CampaignState::Change(const Event& event, const TaskSkipped& skipped) {
  FULCRUM_ASSIGN_OR_RETURN(const SkipReason reason, ParseSkipReason(skipped.reason));
  ++figures_.totals.skips;
  if (reason != SkipReason::kNotNow) activity_.Add(event.annotator, {.skips = 1});
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
  AnnotatorActivity done = {.answers = 1, .cost = submitted.cost};
  if (lease != nullptr) {
    if (const auto took = activity_.WorkTime(event.annotator, event.at, figures_.settings.lease_time)) {
      done.timed = 1;
      done.micros = took->count();
    }
    FULCRUM_RETURN_IF_ERROR(leases_.End(submitted.lease).status());
    activity_.EndWork(event.annotator, event.at, leases_.HeldBy(event.annotator).leases > 0);
  }
  activity_.Add(event.annotator, done);
  if (lease != nullptr) return absl::OkStatus();
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
  if (event.annotator == kGoldSource && gold_.size() < kMostGold) gold_.push_back(imported.item);
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

absl::StatusOr<ModelTask*> CampaignState::RequireModelTask() {
  if (!figures_.model_task) return absl::DataLossError("there is no model task");
  return &*figures_.model_task;
}

absl::Status CampaignState::Change(const Event& event, const ModelTaskOpened& opened) {
  if (opened.round != rounds_.count() + 1 || rounds_.open() != nullptr || opened.rows < 1) {
    return absl::DataLossError(absl::StrCat("round ", opened.round, " is not the next one, or has no rows"));
  }
  ModelTask task{.id = event.sequence, .round = opened.round, .rows = opened.rows, .since = event.at};
  if (figures_.model_task) task.before = figures_.model_task->FeaturesBefore(opened.round);
  figures_.model_task = std::move(task);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const ModelLeaseGranted& granted) {
  FULCRUM_ASSIGN_OR_RETURN(ModelTask* const task, RequireModelTask());
  return task->Grant(granted, event.sequence, event.annotator);
}

absl::Status CampaignState::Change(const Event& /*event*/, const ModelLeaseRenewed& renewed) {
  FULCRUM_ASSIGN_OR_RETURN(ModelTask* const task, RequireModelTask());
  return task->Renew(renewed);
}

absl::Status CampaignState::Change(const Event& /*event*/, const ModelLeaseEnded& ended) {
  FULCRUM_ASSIGN_OR_RETURN(ModelTask* const task, RequireModelTask());
  return task->EndLease(ended);
}

absl::Status CampaignState::Change(const Event& event, const PredictionsStored& stored) {
  FULCRUM_ASSIGN_OR_RETURN(ModelTask* const task, RequireModelTask());
  return task->Answer(stored, event.annotator);
}

absl::Status CampaignState::Change(const Event& /*event*/, const ModelTaskClosed& closed) {
  FULCRUM_ASSIGN_OR_RETURN(ModelTask* const task, RequireModelTask());
  return task->Close(closed);
}

absl::Status CampaignState::Change(const Event& event, const VotesAccepted& accepted) {
  return Count(items_.AcceptVotes(accepted, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const AnnotatorsEstimated& estimated) {
  FULCRUM_ASSIGN_OR_RETURN(Crowd crowd, CrowdFromText(estimated.crowd));
  crowd.sequence = event.sequence;
  crowd.votes = estimated.votes;
  figures_.crowd = std::make_shared<const Crowd>(std::move(crowd));
  for (const StatusChange& change : items_.FollowCrowd(MomentOf(event))) rounds_.Count(change);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const ClassifierHeard& heard) {
  FULCRUM_ASSIGN_OR_RETURN(Voices voices, VoicesFromText(heard.voices));
  voices.sequence = event.sequence;
  // Of items about which nothing new is said it is still true.
  if (figures_.voices != nullptr) {
    voices.probabilities.insert(figures_.voices->probabilities.begin(), figures_.voices->probabilities.end());
  }
  figures_.voices = std::make_shared<const Voices>(std::move(voices));
  for (const StatusChange& change : items_.FollowCrowd(MomentOf(event))) rounds_.Count(change);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const AnnotatorPaused& paused) {
  figures_.paused[paused.who] = paused.reason;
  figures_.resumed.erase(paused.who);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& /*event*/, const AnnotatorResumed& resumed) {
  figures_.paused.erase(resumed.who);
  figures_.resumed.insert(resumed.who);
  return absl::OkStatus();
}

absl::Status CampaignState::Change(const Event& event, const RowsOffered& offered) {
  return offered_.Offer(offered, event.sequence);
}

absl::Status CampaignState::Change(const Event& event, const ItemTaken& taken) {
  const Round* const open = rounds_.open();
  offered_.Take(taken.item, open != nullptr);
  if (open == nullptr) return items_.Take(taken, event.sequence);
  const ItemBatched batched = {.item = taken.item,
                               .round = open->number,
                               .rank = static_cast<std::int64_t>(rounds_.open_items().size()) + 1,
                               .cost = taken.cost};
  FULCRUM_RETURN_IF_ERROR(rounds_.AddItem(batched));
  return Count(items_.Batch(batched, MomentOf(event)));
}

absl::Status CampaignState::Change(const Event& event, const OfferedRowsStored& stored) {
  FULCRUM_RETURN_IF_ERROR(offered_.Store(stored));
  if (stored.rows > 0) {
    figures_.appended.push_back({.sequence = event.sequence, .folder = stored.folder, .rows = stored.rows});
  }
  return absl::OkStatus();
}

}  // namespace fulcrum::storage
