// What events do to items: to their votes, their labels, and the slots in which annotators answer them.
//
// The table changes by its transitions only, one per kind of event. A transition checks that the event can have
// happened to this item, and returns how the item's status changed, because an open round counts that. Leases are known
// here by their number only; see lease_table.h. Queries are those of ItemSet. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/log/event.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"
#include "storage/state/item_set.h"

namespace fulcrum::storage {

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
