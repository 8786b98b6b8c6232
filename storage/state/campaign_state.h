// Everything that follows from the log of a campaign up to one of its events.
//
// A state starts empty and is changed by Apply alone, one event after the other. It depends on the events and nothing
// else: not on the clock, not on the order of a hash table. So the state of the store, that of a reader, and the one
// that `fulcrum fsck` derives again are equal. Items, leases and rounds are tables with transitions of their own; Apply
// decides which transitions an event causes, and keeps what belongs to the campaign as a whole. An event that must
// never happen (two live leases on a slot, an epoch that does not grow, a request that takes effect twice) is refused.
//
// Used by one thread at a time. Memory: a few hundred bytes for every item that was ever batched or labeled, and about
// forty for every request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/log/event.h"
#include "storage/state/campaign_life.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/item_table.h"
#include "storage/state/lease_table.h"
#include "storage/state/round_table.h"

namespace fulcrum::storage {

class CampaignState {
 public:
  CampaignState() = default;
  CampaignState(CampaignState&&) = default;
  CampaignState& operator=(CampaignState&&) = default;

  /// DataLoss, and a state that must not be used any more, if the event cannot have happened.
  absl::Status Apply(const Event& event);

  std::int64_t last_sequence() const { return last_sequence_; }
  Time last_time() const { return last_time_; }
  const CampaignSettings& settings() const { return settings_; }
  Life life() const { return life_; }
  const std::string& life_reason() const { return life_reason_; }
  /// Who changed it last; empty if the daemon did by itself.
  const std::string& life_by() const { return life_by_; }
  const Totals& totals() const { return totals_; }
  /// Sequence of the last request to train from nothing; 0 if there was none.
  std::int64_t retrain_requested() const { return retrain_requested_; }
  /// In the order in which they were added to the pool.
  const std::vector<AppendedRows>& appended() const { return appended_; }

  const ItemTable& items() const { return items_; }
  const LeaseTable& leases() const { return leases_; }
  const RoundTable& rounds() const { return rounds_; }

  /// Whether an annotator may be asked about an item: they have neither answered, declined nor leased it.
  bool MayAnswer(const Item& item, absl::string_view annotator) const;
  /// Sequence of the first event that a request caused.
  std::optional<std::int64_t> FindRequest(absl::string_view annotator, absl::string_view request_id) const;

  /// Items and rounds whose rows in the derived tables are not up to date.
  ChangedItems& changed_items() { return items_.changed(); }
  void ForgetChanges();

 private:
  using RequestKey = std::pair<std::uint64_t, std::uint64_t>;

  static RequestKey KeyOfRequest(absl::string_view annotator, absl::string_view request_id);
  absl::Status NoteRequest(const Event& event);
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

  std::int64_t last_sequence_ = 0;
  Time last_time_ = {};
  CampaignSettings settings_;
  Life life_ = Life::kCreated;
  std::string life_reason_;
  std::string life_by_;
  Totals totals_;
  std::int64_t retrain_requested_ = 0;
  std::vector<AppendedRows> appended_;
  ItemTable items_;
  LeaseTable leases_;
  RoundTable rounds_;
  absl::flat_hash_map<RequestKey, std::int64_t> requests_;
  RequestKey last_request_ = {};  ///< of the previous event
};

/// The figures of a campaign after a commit: small, and cheap to take. A plain value.
struct CampaignStatus {
  std::int64_t last_sequence = 0;
  Time last_time = {};
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
  bool round_due = false;                ///< it is open, and AdvanceRound would have closed it at last_time
  std::optional<Time> next_expiry = {};  ///< when the next lease expires
};

CampaignStatus StatusOf(const CampaignState& state);

}  // namespace fulcrum::storage
