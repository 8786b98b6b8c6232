// Everything that follows from the log of a campaign up to one of its events.
//
// A state starts empty and is changed by Apply alone, one event after the other. It depends on the events and nothing
// else: not on the clock, not on the order of a hash table. So the state of the store, that of a reader, and the one
// that `fulcrum fsck` derives again are equal. Items, leases and rounds are tables with transitions of their own; Apply
// decides which transitions an event causes, and keeps what belongs to the campaign as a whole. An event that must
// never happen (two live leases on a slot, an epoch that does not grow, a request that takes effect twice) is refused.
//
// Used by one thread at a time. Memory: a few hundred bytes for every item that was batched or labeled, and about sixty
// for every request, since the store was opened; older ones are in the checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/item_table.h"
#include "storage/state/lease_table.h"
#include "storage/state/tables.h"

namespace fulcrum::storage {

class CampaignState {
 public:
  CampaignState() = default;
  CampaignState(CampaignState&&) = default;
  CampaignState& operator=(CampaignState&&) = default;

  /// DataLoss, and a state that must not be used any more, if the event cannot have happened.
  absl::Status Apply(const Event& event);

  std::int64_t last_sequence() const { return figures_.last_sequence; }
  Time last_time() const { return figures_.last_time; }
  /// When annotators, or what they are asked, did something last: a vote, a skip, a lease that was granted or ended, a
  /// batch. Moved on when the store is opened, so that the time since the event before counts for at most half of the
  /// dispute time.
  Time last_labeling() const { return figures_.last_labeling; }
  const CampaignSettings& settings() const { return figures_.settings; }
  Life life() const { return figures_.life; }
  const std::string& life_reason() const { return figures_.life_reason; }
  /// Who changed it last; empty if the daemon did by itself.
  const std::string& life_by() const { return figures_.life_by; }
  const Totals& totals() const { return figures_.totals; }
  /// Sequence of the last request to train from nothing; 0 if there was none.
  std::int64_t retrain_requested() const { return figures_.retrain_requested; }
  /// In the order in which they were added to the pool.
  const std::vector<AppendedRows>& appended() const { return figures_.appended; }
  /// The last task for a model process; nothing before the first.
  const std::optional<ModelTask>& model_task() const { return figures_.model_task; }

  /// What is estimated about the annotators; null before the first estimate.
  const Crowd* crowd() const { return figures_.crowd.get(); }
  /// What a classifier says about items that have votes or are to get them; null if none was heard.
  const Voices* voices() const { return figures_.voices.get(); }
  /// What it says about one of them; empty: nothing.
  std::span<const double> VoiceOn(absl::string_view item) const;
  /// Annotators who get no tasks, with the reason.
  const std::map<std::string, std::string>& paused() const { return figures_.paused; }
  /// Annotators whom an administrator has resumed: no rule pauses them again.
  const std::set<std::string>& resumed() const { return figures_.resumed; }
  /// Items with known answers that annotators are asked about; see kGoldSource.
  const std::vector<std::string>& gold() const { return gold_; }

  /// What the annotators have done so far.
  const ActivityTable& activity() const { return activity_; }
  /// What an answer of an annotator to an item costs, unless the answer says otherwise.
  double CostOf(const Item& item, absl::string_view annotator) const;
  /// What an answer of an annotator is expected to take, by its answers and those of the others so far.
  double SecondsOf(absl::string_view annotator) const;
  /// What the budget of an annotator leaves, its live leases counted as answered; infinity without a budget.
  double LeftFor(absl::string_view annotator) const;

  const ItemTable& items() const { return items_; }
  const LeaseTable& leases() const { return leases_; }
  const RoundTable& rounds() const { return rounds_; }
  const RequestTable& requests() const { return requests_; }
  /// What a stream has brought.
  const OfferedRows& offered() const { return offered_; }
  /// Of the last round, by which it is judged. It needs as many answers as its batch has items, whether they are to
  /// those or to items that a stream brought: otherwise a steady stream would never let it end.
  RoundProgress LastProgress() const;
  /// By which it is judged: that of the settings, with the times that are learned from the answers so far.
  RoundPolicy Policy() const;

  /// Whether an annotator may be asked about an item: they have neither answered, declined nor leased it.
  bool MayAnswer(const Item& item, absl::string_view annotator) const;

  /// RollBack undoes everything since Begin; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  /// The state that a checkpoint stores. Its rows are read when they are needed, so it must outlive the state unless
  /// LoadAll is called. DataLoss if the checkpoint is damaged.
  static absl::StatusOr<CampaignState> FromCheckpoint(Checkpoint& checkpoint);
  absl::Status LoadAll(const Checkpoint& checkpoint);
  /// What a checkpoint stores of the state besides rows, by name.
  std::map<std::string, std::string> Figures() const;

  /// What changed since the last checkpoint.
  ChangedItems& changed_items() { return items_.changed(); }
  RequestTable& changed_requests() { return requests_; }
  void ForgetChanges();

 private:
  /// What belongs to the campaign as a whole.
  struct CampaignFigures {
    std::int64_t last_sequence = 0;
    Time last_time = {};
    Time last_labeling = {};
    CampaignSettings settings = {};
    Life life = Life::kCreated;
    std::string life_reason = {};
    std::string life_by = {};
    Totals totals = {};
    std::int64_t retrain_requested = 0;
    std::vector<AppendedRows> appended = {};
    std::optional<ModelTask> model_task = {};
    std::shared_ptr<const Crowd> crowd = {};
    std::shared_ptr<const Voices> voices = {};
    std::map<std::string, std::string> paused = {};
    std::set<std::string> resumed = {};
  };

  ItemTable::Moment MomentOf(const Event& event) const;
  /// Counts a change of an item in its round.
  absl::Status Count(const absl::StatusOr<StatusChange>& change);
  absl::Status EndLease(const Event& event, std::int64_t id, ItemTable::Unanswered how);

  absl::Status Change(const Event& event, const StoreOpened& opened);
  absl::Status Change(const Event& event, const SettingsChanged& changed);
  absl::Status Change(const Event& event, const LifeChanged& changed);
  absl::Status Change(const Event& event, const BatchCommitted& committed);
  absl::Status Change(const Event& event, const ItemBatched& batched);
  absl::Status Change(const Event& event, const RoundClosed& closed);
  absl::Status Change(const Event& event, const ModelStored& stored);
  absl::Status Change(const Event& event, const RowsAppended& appended);
  absl::Status Change(const Event& event, const RetrainRequested& requested);
  absl::Status Change(const Event& event, const LeaseGranted& granted);
  absl::Status Change(const Event& event, const LeaseRenewed& renewed);
  absl::Status Change(const Event& event, const LeaseReleased& released);
  absl::Status Change(const Event& event, const LeaseExpired& expired);
  absl::Status Change(const Event& event, const LabelSubmitted& submitted);
  absl::Status Change(const Event& event, const LabelChanged& changed);
  absl::Status Change(const Event& event, const LabelWithdrawn& withdrawn);
  absl::Status Change(const Event& event, const LabelImported& imported);
  absl::Status Change(const Event& event, const TaskSkipped& skipped);
  absl::Status Change(const Event& event, const ItemSetAside& set_aside);
  absl::Status Change(const Event& event, const ItemReturned& returned);
  absl::Status Change(const Event& event, const ItemDisputed& disputed);
  absl::Status Change(const Event& event, const ItemResolved& resolved);
  absl::Status Change(const Event& event, const ModelTaskOpened& opened);
  absl::Status Change(const Event& event, const ModelLeaseGranted& granted);
  absl::Status Change(const Event& event, const ModelLeaseRenewed& renewed);
  absl::Status Change(const Event& event, const ModelLeaseEnded& ended);
  absl::Status Change(const Event& event, const PredictionsStored& stored);
  absl::Status Change(const Event& event, const ModelTaskClosed& closed);
  absl::StatusOr<ModelTask*> RequireModelTask();
  absl::Status Change(const Event& event, const VotesAccepted& accepted);
  absl::Status Change(const Event& event, const AnnotatorsEstimated& estimated);
  absl::Status Change(const Event& event, const ClassifierHeard& heard);
  absl::Status Change(const Event& event, const AnnotatorPaused& paused);
  absl::Status Change(const Event& event, const AnnotatorResumed& resumed);
  absl::Status Change(const Event& event, const RowsOffered& offered);
  absl::Status Change(const Event& event, const ItemTaken& taken);
  absl::Status Change(const Event& event, const OfferedRowsStored& stored);

  CampaignFigures figures_;
  std::optional<CampaignFigures> figures_before_;  ///< as they were at Begin
  ActivityTable activity_;
  std::vector<std::string> gold_;  ///< in the order in which they were imported
  std::size_t gold_before_ = 0;    ///< how many there were at Begin
  ItemTable items_;
  LeaseTable leases_;
  RoundTable rounds_;
  RequestTable requests_;
  OfferedRows offered_;
};

/// The figures of a campaign after a commit: small, and cheap to take. A plain value.
struct CampaignStatus {
  std::int64_t last_sequence = 0;
  Time last_time = {};
  Time last_labeling = {};
  Life life = Life::kCreated;
  std::string life_reason = {};
  std::string life_by = {};  ///< empty if the daemon changed it by itself
  Totals totals = {};
  std::size_t live_leases = 0;
  std::size_t open_slots = 0;
  std::size_t touched_items = 0;  ///< ever batched or labeled
  /// Of those, by status.
  ItemTable::StatusCounts items_by_status = {};
  std::size_t leased_items = 0;          ///< offered items with a live lease
  std::int64_t last_label_sequence = 0;  ///< of the last event that may have changed a label
  std::int64_t round = 0;                ///< the last one; 0 before the first
  bool round_open = false;
  std::int64_t round_items = 0;
  std::int64_t round_labeled = 0;
  std::int64_t round_settled = 0;
  std::int64_t estimated_votes = 0;      ///< votes submitted until the annotators were estimated last
  std::int64_t estimated_sequence = 0;   ///< of that estimate; 0: there is none
  bool round_due = false;                ///< it is open, and AdvanceRound would have closed it at last_time
  std::optional<Time> next_expiry = {};  ///< when the next lease expires
  std::optional<ModelTask> model_task = {};
  OfferedFigures offered = {};
};

CampaignStatus StatusOf(const CampaignState& state);

}  // namespace fulcrum::storage
