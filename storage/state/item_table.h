// The items of a campaign, and what events do to them: to their votes, their labels, and the slots in which annotators
// answer them.
//
// The table changes by its transitions only, one per kind of event. A transition checks that the event can have
// happened to this item, and returns how the item's status changed, because an open round counts that. Leases are known
// here by their number only; see lease_table.h. Queries are those of ItemSet. Used by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/lease_table.h"

namespace fulcrum::storage {

// Items whose rows are not in the checkpoint yet.
//
// They are taken in small groups, so that the thread that writes them is never busy for long, and in the order of their
// ids, as in the table: adjacent rows share pages. Used by one thread at a time.

class ChangedItems {
 public:
  /// The item must live until it was taken.
  void Add(const Item& item) { fresh_.insert(&item); }
  /// For an item that was added after the last Take and does not exist any more.
  void Forget(const Item& item) { fresh_.erase(&item); }

  bool empty() const { return size() == 0; }
  /// An item that changed again while it was waiting may count twice.
  std::size_t size() const { return fresh_.size() + waiting_.size(); }

  /// At most so many.
  std::vector<const Item*> Take(std::size_t most);

  /// The ids of all.
  absl::flat_hash_set<std::string> Ids() const;

 private:
  absl::flat_hash_set<const Item*> fresh_;
  std::vector<const Item*> waiting_;  ///< taken from its end
  std::size_t sorted_ = 0;            ///< so many at the end of waiting_ are in descending order
};

// The items of a campaign: those in memory, and those that are only in the checkpoint so far.
//
// An item is read from the checkpoint when it is needed, and then stays in memory. Items with slots are always in
// memory, and with them all items that are offered. What is asked about all items (how many there are in each status,
// who answered) is kept as figures, so that no question reads every item. Changes go through the protected functions,
// which keep the indexes and what is needed to undo them; ItemTable decides what changes. Used by one thread at a
// time.

/// The label of an item at a point of the log, as training uses it.
struct DecidedLabel {
  std::string item = {};
  std::string value = {};
  std::int64_t sequence = 0;  ///< of the event that decided it

  bool operator==(const DecidedLabel&) const = default;
};

class ItemSet {
 public:
  /// Number of items by status.
  using StatusCounts = std::array<std::int64_t, kItemStatusCount>;
  struct Figures {
    StatusCounts counts = {};
    std::int64_t last_label_sequence = 0;

    bool operator==(const Figures&) const = default;
  };

  ItemSet(const ItemSet&) = delete;
  ItemSet& operator=(const ItemSet&) = delete;

  std::size_t size() const;
  const Figures& figures() const { return figures_; }
  const StatusCounts& counts() const { return figures_.counts; }
  /// Sequence of the last event that may have changed the label of an item; 0 if there was none.
  std::int64_t last_label_sequence() const { return figures_.last_label_sequence; }
  /// Annotators who have answered or declined an item.
  const absl::btree_set<std::string>& annotators() const { return annotators_; }

  /// Null for an item that was never batched or labeled.
  const Item* Find(absl::string_view id) const { return Lookup(id); }
  static const Slot* FindSlot(const Item& item, std::int64_t number);
  static const Vote* FindVote(const Item& item, absl::string_view annotator);
  /// Whether it is offered, and at least one of its slots is leased.
  static bool IsLeased(const Item& item);
  /// The number of such items.
  std::size_t leased() const { return leased_; }

  /// In any order.
  void Visit(const std::function<void(const Item&)>& visit) const;
  /// Items in a status whose ids come after `after`, in the order of their ids, until `visit` returns false.
  void VisitStatus(ItemStatus status, absl::string_view after, const std::function<bool(const Item&)>& visit) const;
  /// Items in the pool with votes that do not decide them, in the order in which they were batched.
  std::vector<Item> VotedInPool() const;
  /// All labels, in the order in which they were decided.
  std::vector<DecidedLabel> DecidedLabels() const;

  std::size_t open_slots() const { return open_slots_.size(); }
  /// Open slots in the order in which they are offered, until `visit` returns false.
  void VisitOpenSlots(const std::function<bool(const Item&, const Slot&)>& visit) const;

  /// Items that changed and were not taken or forgotten since.
  ChangedItems& changed() { return changed_; }
  const ChangedItems& changed() const { return changed_; }

  /// RollBack undoes everything since Begin; Accept ends it.
  void Begin();
  void Accept();
  void RollBack();

  /// Loads the items that have slots, and adds their leases to `leases`.
  void ReadFrom(Checkpoint& base, const Figures& figures, const std::vector<std::string>& annotators,
                LeaseTable& leases);
  /// Loads everything, and does not need the checkpoint any more.
  void LoadAll();

 protected:
  ItemSet() = default;
  ItemSet(ItemSet&&) = default;
  ItemSet& operator=(ItemSet&&) = default;
  ~ItemSet() = default;

  // An item that these return may be changed until Note is called for it, except for the status of its slots.

  Item& FindOrCreate(const std::string& id, std::int64_t sequence);
  /// DataLoss if there is no such item.
  absl::StatusOr<Item*> Existing(absl::string_view id);

  void OpenSlot(const Item& item, Slot& slot);
  void CloseSlot(const Item& item, Slot& slot, SlotStatus status);
  /// To be called after every change of an item's status or leases.
  StatusChange Note(Item& item, ItemStatus before);
  void NoteLabel(std::int64_t sequence) { figures_.last_label_sequence = sequence; }
  void NoteAnnotator(const std::string& annotator);

 private:
  /// An item in memory.
  struct Entry : Item {
    bool leased = false;        ///< it counts in leased_
    std::uint64_t kept_in = 0;  ///< the group of changes for which it was kept
  };
  /// By id; an id that is not in memory can be looked for too.
  struct ById {
    using is_transparent = void;
    bool operator()(const Item* a, const Item* b) const { return a->id < b->id; }
    bool operator()(const Item* a, absl::string_view b) const { return a->id < b; }
    bool operator()(absl::string_view a, const Item* b) const { return a < b->id; }
  };
  struct OpenSlotKey {
    std::int64_t passes;
    std::int64_t round;
    std::int64_t rank;
    const Item* item;
    std::int64_t slot;

    bool operator<(const OpenSlotKey& other) const;
  };
  /// An item as it was at Begin.
  struct Kept {
    Entry* entry = nullptr;
    bool created = false;  ///< it did not exist
    Item before = {};
  };

  static OpenSlotKey KeyOf(const Item& item, const Slot& slot);
  /// Null if there is no such item.
  Entry* Lookup(absl::string_view id) const;
  Entry& Insert(Item item) const;
  /// Keeps an item that is about to change.
  void Keep(Entry& entry, bool created);
  void CountLeased(Entry& entry, bool leased) const;
  // All indexes except for the figures.
  void AddToIndexes(Entry& entry) const;
  void RemoveFromIndexes(Entry& entry) const;

  mutable absl::node_hash_map<std::string, Entry> items_;
  // Of the items in memory, which a query may load.
  mutable std::array<absl::btree_set<const Item*, ById>, kItemStatusCount> by_status_;
  mutable absl::btree_set<OpenSlotKey> open_slots_;
  mutable std::size_t leased_ = 0;
  Figures figures_;
  absl::btree_set<std::string> annotators_;
  ChangedItems changed_;
  Checkpoint* base_ = nullptr;

  std::uint64_t group_ = 0;  ///< counts the groups of changes that may be undone
  bool keeps_ = false;       ///< between Begin and its end
  std::vector<Kept> kept_;   ///< the first kept_count_; the others are there to use their memory again
  std::size_t kept_count_ = 0;
  Figures figures_before_;
  std::vector<std::string> new_annotators_;  ///< since Begin
};

class ItemTable : public ItemSet {
 public:
  /// What a transition depends on besides the item and the event.
  struct Moment {
    const CampaignSettings& settings;
    std::int64_t open_round = 0;     ///< 0 between rounds
    std::int64_t sequence = 0;       ///< of the event
    const Crowd* crowd = nullptr;    ///< what is estimated about the annotators; null: nothing yet
    const Voices* voices = nullptr;  ///< what a classifier says about items; null: nothing yet
  };

  /// How a lease ended without an answer.
  enum class Unanswered { kReleased, kExpired, kUnsure, kBadItem, kNotNow };

  // Transitions.

  /// An item of the pool, or one that is labeled by votes and asked about again.
  absl::StatusOr<StatusChange> Batch(const ItemBatched& batched, const Moment& moment);
  /// The item is known, and waits for a batch.
  absl::Status Take(const ItemTaken& taken, std::int64_t sequence);
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
  /// From set aside or disputed; annotators who declined it can be asked again.
  absl::StatusOr<StatusChange> Return(const ItemReturned& returned, const Moment& moment);
  absl::StatusOr<StatusChange> Dispute(const ItemDisputed& disputed);
  /// Decides the item, whatever its votes are.
  absl::StatusOr<StatusChange> Resolve(const ItemResolved& resolved, const Moment& moment);
  /// After the settings have changed: gives the items of the open round what follows from their votes now.
  std::vector<StatusChange> ReconsiderOffered(const Moment& moment);
  /// Its votes decide it as they are.
  absl::StatusOr<StatusChange> AcceptVotes(const VotesAccepted& accepted, const Moment& moment);
  /// After the annotators were estimated again, or a classifier was heard: labels follow their votes, and items that
  /// wait for votes may have enough now. A label is never taken away.
  std::vector<StatusChange> FollowCrowd(const Moment& moment);
  /// Something that is stored with the item changed elsewhere: the time of its lease.
  void MarkChanged(const std::string& id);

 private:
  static Slot* MutableSlot(Item& item, std::int64_t number);
  /// Takes the lease from its slot, which is then neither open nor leased.
  static Slot& FreeSlot(Item& item, std::int64_t number);

  /// Gives the item the status that follows from its votes, and as many open slots as it needs.
  StatusChange Reconsider(Item& item, ItemStatus before, const Moment& moment);
  void MatchSlots(Item& item, std::int64_t wanted);
};

}  // namespace fulcrum::storage
