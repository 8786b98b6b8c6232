// Items that were ever batched or labeled: their votes, their labels, and the slots in which annotators answer them.
//
// The table changes by its transitions only, one per kind of event. A transition checks that the event can have
// happened to this item, and returns how the item's status changed, because an open round counts that. Leases are known
// here by their number only; see lease_table.h. Items from before the checkpoint are read when they are needed, and
// then stay in memory. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/changed_items.h"
#include "storage/state/checkpoint.h"
#include "storage/state/lease_table.h"

namespace fulcrum::storage {

/// The label of an item at a point of the log, as training uses it.
struct DecidedLabel {
  std::string item = {};
  std::string value = {};
  std::int64_t sequence = 0;  ///< of the event that decided it

  bool operator==(const DecidedLabel&) const = default;
};

// What follows from the votes on an item: a label, more votes, or a dispute.

enum class VoteOutcome { kUndecided, kDecided, kDisputed };

struct VoteVerdict {
  VoteOutcome outcome = VoteOutcome::kUndecided;
  std::string value = {};         ///< if decided
  std::int64_t votes_wanted = 0;  ///< if undecided: how many more
};

/// Withdrawn votes do not count. With `overlap` votes the first value decides if it leads by `margin`; otherwise one
/// more annotator is asked at a time, until there are `most_votes`.
VoteVerdict JudgeVotes(std::span<const Vote> votes, const CampaignSettings& settings);

class ItemTable {
 public:
  /// What a transition depends on besides the item and the event.
  struct Moment {
    const CampaignSettings& settings;
    std::int64_t open_round = 0;  ///< 0 between rounds
    std::int64_t sequence = 0;    ///< of the event
  };

  /// How a lease ended without an answer.
  enum class Unanswered { kReleased, kExpired, kUnsure, kBadItem, kNotNow };

  // Transitions.

  absl::StatusOr<StatusChange> Batch(const ItemBatched& batched, const Moment& moment);
  /// Items without an answer return to the pool; slots stay only while they are leased.
  void CloseRound(const std::vector<std::string>& items);
  /// Returns the item. Whether the annotator may answer it is checked by the caller.
  absl::StatusOr<const Item*> LeaseSlot(const LeaseGranted& granted, std::int64_t lease);
  /// The slot is open again, unless it is not needed any more.
  absl::StatusOr<StatusChange> ReturnSlot(const Lease& lease, Unanswered how, const Moment& moment);
  /// `lease` is the live lease that the label answers; null for a late label.
  absl::StatusOr<StatusChange> AddVote(const LabelSubmitted& submitted, const std::string& annotator,
                                       const Lease* lease, const Moment& moment);
  absl::StatusOr<StatusChange> ChangeVote(const LabelChanged& changed, const std::string& annotator,
                                          const Moment& moment);
  absl::StatusOr<StatusChange> WithdrawVote(const LabelWithdrawn& withdrawn, const std::string& annotator,
                                            const Moment& moment);
  absl::StatusOr<StatusChange> Import(const LabelImported& imported, const Moment& moment);
  absl::StatusOr<StatusChange> SetAside(const ItemSetAside& set_aside);
  absl::StatusOr<StatusChange> Return(const ItemReturned& returned, const Moment& moment);
  /// Something that is stored with the item changed elsewhere: the time of its lease.
  void MarkChanged(const std::string& id);

  /// RollBack undoes everything since Begin; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  // Queries.

  std::size_t size() const { return size_; }
  /// Null for an item that was never batched or labeled.
  const Item* Find(absl::string_view id) const;
  static const Slot* FindSlot(const Item& item, std::int64_t number);
  static const Vote* FindVote(const Item& item, absl::string_view annotator);
  /// In any order.
  void Visit(const std::function<void(const Item&)>& visit) const;
  /// All labels, in the order in which they were decided.
  std::vector<DecidedLabel> DecidedLabels() const;

  std::size_t open_slots() const { return open_slots_.size(); }
  /// Open slots in the order in which they are offered, until `visit` returns false.
  void VisitOpenSlots(const std::function<bool(const Item&, const Slot&)>& visit) const;

  /// Items that changed and were not taken or forgotten since.
  ChangedItems& changed() { return changed_; }
  const ChangedItems& changed() const { return changed_; }

  /// Loads the items that have slots, and adds their leases to `leases`.
  void ReadFrom(Checkpoint& base, std::size_t items, LeaseTable& leases);
  /// Loads everything, and does not need the checkpoint any more.
  void LoadAll();

 private:
  /// passes, round, rank, item, slot
  using OpenSlotKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, std::int64_t>;

  static OpenSlotKey KeyOf(const Item& item, const Slot& slot);
  static Slot* MutableSlot(Item& item, std::int64_t number);
  /// Takes the lease from its slot, which is then neither open nor leased.
  static Slot& FreeSlot(Item& item, std::int64_t number);

  /// Null if there is no such item.
  Item* Lookup(absl::string_view id) const;
  /// An item that is about to change.
  void Touch(Item& item);
  Item& FindOrCreate(const std::string& id, std::int64_t sequence);
  absl::StatusOr<Item*> Existing(const std::string& id);
  Item& Insert(Item item) const;
  /// Gives the item the status that follows from its votes, and as many open slots as it needs.
  StatusChange Reconsider(Item& item, ItemStatus before, const Moment& moment);
  void MatchSlots(Item& item, std::int64_t wanted);
  void OpenSlot(Item& item, Slot& slot);
  void CloseSlot(Item& item, Slot& slot, SlotStatus status);

  mutable absl::node_hash_map<std::string, Item> items_;
  absl::btree_set<OpenSlotKey> open_slots_;
  ChangedItems changed_;
  std::size_t size_ = 0;  ///< with those that are not in memory
  Checkpoint* base_ = nullptr;

  absl::flat_hash_map<Item*, std::optional<Item>> before_;  ///< as they were at Begin; nothing if they did not exist
  bool keeps_ = false;                                      ///< between Begin and its end
};

}  // namespace fulcrum::storage
