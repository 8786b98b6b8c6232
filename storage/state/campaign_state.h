// Everything there is to know about a campaign at one point of its log.
//
// A state starts empty and is changed by Apply alone, one event after the other. What it becomes depends on the events
// and nothing else: not on the clock, not on the order of a hash table. So the state that the store works with, the one
// a reader follows, and the one `fulcrum fsck` rebuilds are the same by construction. Apply also checks what must never
// happen (two live leases on a slot, an epoch that does not grow, a request that takes effect twice) and refuses it.
//
// Used by one thread at a time. Memory: some hundred bytes for every item that was ever batched or labeled, and about
// forty for every request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/changed_items.h"

namespace fulcrum::storage {

/// An item's label at a point of the log, as training wants it.
struct DecidedLabel {
  std::string item = {};
  std::string value = {};
  std::int64_t sequence = 0;  ///< of the event that decided it

  bool operator==(const DecidedLabel&) const = default;
};

class CampaignState {
 public:
  CampaignState() = default;
  CampaignState(CampaignState&&) = default;
  CampaignState& operator=(CampaignState&&) = default;

  /// DataLoss, and a state that must not be used further, where the event cannot have happened.
  absl::Status Apply(const Event& event);

  std::int64_t last_sequence() const { return last_sequence_; }
  Time last_time() const { return last_time_; }
  const CampaignSettings& settings() const { return settings_; }
  const std::string& life() const { return life_; }
  const std::string& life_reason() const { return life_reason_; }
  const Totals& totals() const { return totals_; }
  const std::vector<Round>& rounds() const { return rounds_; }
  const std::vector<StoredModel>& models() const { return models_; }
  /// Sequence of the last request to start from nothing; 0 where there was none.
  std::int64_t retrain_requested() const { return retrain_requested_; }
  /// In the order they joined the pool.
  const std::vector<AppendedRows>& appended() const { return appended_; }
  const absl::node_hash_map<std::string, Item>& items() const { return items_; }
  const absl::flat_hash_map<std::int64_t, Lease>& leases() const { return leases_; }
  /// What the labels will cost that are expected for live leases.
  double leased_cost() const { return leased_cost_; }

  /// The round whose items are offered; null between rounds.
  const Round* open_round() const;
  /// Null for an item that was never batched or labeled.
  const Item* FindItem(absl::string_view id) const;
  static const Slot* FindSlot(const Item& item, std::int64_t number);
  static const Vote* FindVote(const Item& item, absl::string_view annotator);
  /// Null unless the lease is live.
  const Lease* FindLease(std::int64_t id) const;
  /// Sequence of the first event that a request caused.
  std::optional<std::int64_t> FindRequest(absl::string_view annotator, absl::string_view request_id) const;

  /// When the next lease ends; nothing where there is none.
  std::optional<Time> NextExpiry() const;
  /// Live leases whose time is up, the earliest first.
  std::vector<std::int64_t> LeasesDue(Time now) const;

  std::size_t open_slots() const { return open_slots_.size(); }
  /// Open slots in the order they are to be offered, until `visit` says false.
  void VisitOpenSlots(const std::function<bool(const Item&, const Slot&)>& visit) const;
  /// Whether this annotator may be asked about an item: they have not answered it, declined it or leased it.
  bool MayAnswer(const Item& item, absl::string_view annotator) const;

  /// All labels, in the order they were decided.
  std::vector<DecidedLabel> DecidedLabels() const;

  /// Items and rounds that events have touched, and nobody has taken or forgotten since. The items are the state's own.
  struct Changes {
    ChangedItems items = {};
    absl::flat_hash_set<std::int64_t> rounds = {};
  };
  void ForgetChanges() { changes_ = {}; }
  const Changes& changes() const { return changes_; }
  ChangedItems& changed_items() { return changes_.items; }

 private:
  using RequestKey = std::pair<std::uint64_t, std::uint64_t>;
  /// passes, round, rank, item, slot
  using OpenSlotKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, std::int64_t>;

  static RequestKey KeyOfRequest(absl::string_view annotator, absl::string_view request_id);
  static OpenSlotKey KeyOfSlot(const Item& item, const Slot& slot);

  absl::Status NoteRequest(const Event& event);

  // What each kind of event changes: apply_round_events.cc
  absl::Status Change(const Event& event, const StoreOpened& opened);
  absl::Status Change(const Event& event, const SettingsChanged& changed);
  absl::Status Change(const Event& event, const LifeChanged& changed);
  absl::Status Change(const Event& event, const BatchCommitted& committed);
  absl::Status Change(const Event& event, const ItemBatched& batched);
  absl::Status Change(const Event& event, const RoundClosed& closed);
  absl::Status Change(const Event& event, const ModelStored& stored);
  absl::Status Change(const Event& event, const RowsAppended& appended);
  absl::Status Change(const Event& event, const RetrainRequested& requested);

  // apply_lease_events.cc
  absl::Status Change(const Event& event, const LeaseGranted& granted);
  absl::Status Change(const Event& event, const LeaseRenewed& renewed);
  absl::Status Change(const Event& event, const LeaseReleased& released);
  absl::Status Change(const Event& event, const LeaseExpired& expired);
  absl::Status Change(const Event& event, const TaskSkipped& skipped);

  // apply_label_events.cc
  absl::Status Change(const Event& event, const LabelSubmitted& submitted);
  absl::Status Change(const Event& event, const LabelChanged& changed);
  absl::Status Change(const Event& event, const LabelWithdrawn& withdrawn);
  absl::Status Change(const Event& event, const LabelImported& imported);
  absl::Status Change(const Event& event, const ItemSetAside& set_aside);
  absl::Status Change(const Event& event, const ItemReturned& returned);

  Item& Touch(const std::string& id);
  absl::StatusOr<Item*> Existing(const std::string& id);
  /// The annotator's own label, unless it was withdrawn.
  absl::StatusOr<Vote*> ExistingVote(Item& item, const std::string& annotator);
  bool InOpenRound(const Item& item) const;
  void SetStatus(Item& item, ItemStatus status);
  /// Gives an item the status that its votes amount to, and as many open slots as it wants.
  void Reconsider(Item& item, std::int64_t sequence);
  void SetLabel(Item& item, const std::string& value, std::int64_t sequence);
  void MatchSlots(Item& item, std::int64_t wanted);
  void OpenSlot(Item& item, Slot& slot);
  void CloseSlot(Item& item, Slot& slot, SlotStatus status);
  static Slot* MutableSlot(Item& item, std::int64_t number);
  /// Takes a lease from the live ones; its slot is the caller's to free.
  absl::StatusOr<Lease> EndLease(std::int64_t id);
  /// Takes an ended lease away from its slot, which is then neither open nor leased.
  static Slot& FreeSlot(Item& item, std::int64_t number);
  /// What becomes of a slot whose lease ended without an answer.
  void ReopenSlot(Item& item, std::int64_t number);

  std::int64_t last_sequence_ = 0;
  Time last_time_ = {};
  CampaignSettings settings_;
  std::string life_ = "created";
  std::string life_reason_;
  Totals totals_;
  std::vector<Round> rounds_;
  std::vector<StoredModel> models_;
  std::int64_t retrain_requested_ = 0;
  std::vector<AppendedRows> appended_;
  absl::node_hash_map<std::string, Item> items_;
  absl::flat_hash_map<std::int64_t, Lease> leases_;
  double leased_cost_ = 0;
  absl::btree_set<std::pair<Time, std::int64_t>> expiries_;
  absl::btree_set<OpenSlotKey> open_slots_;
  absl::flat_hash_map<RequestKey, std::int64_t> requests_;
  RequestKey last_request_ = {};  ///< of the event before
  Changes changes_;
};

// A campaign's figures after a commit, for whoever watches: small, and cheap to take. A plain value.

struct CampaignStatus {
  std::int64_t last_sequence = 0;
  Time last_time = {};
  std::string life = {};
  std::string life_reason = {};
  Totals totals = {};
  std::size_t live_leases = 0;
  std::size_t open_slots = 0;
  std::size_t touched_items = 0;  ///< ever batched or labeled
  std::int64_t round = 0;         ///< the last one; 0 before the first
  bool round_open = false;
  std::int64_t round_items = 0;
  std::int64_t round_labeled = 0;
  std::int64_t round_settled = 0;
  bool round_due = false;                ///< it is open, and AdvanceRound would have closed it at last_time
  std::optional<Time> next_expiry = {};  ///< when the next lease ends by itself
};

CampaignStatus StatusOf(const CampaignState& state);

}  // namespace fulcrum::storage
