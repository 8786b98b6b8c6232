// The log and the state derived from it, changed together, and the time.
//
// Rules (lease_rules.h, label_rules.h, round_rules.h) read the state, decide, and append events. An event is written to
// the log first and then applied. A rule makes all its checks before its first Append, so that a refusal changes
// nothing. The owner has a transaction of the database around the appends, and tells the ledger how it ended: after
// RollBack the state is what it was at Begin. Belongs to the thread that writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/clock.h"
#include "storage/log/event_log.h"
#include "storage/state/campaign_records.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

class Ledger {
 public:
  /// All must outlive the ledger. Reads the checkpoint and the log after it.
  static absl::StatusOr<Ledger> Open(SqliteDatabase& database, Checkpoint& checkpoint, const Clock& clock);

  const CampaignState& state() const { return state_; }
  EventLog& log() { return log_; }

  /// The time of the clock, or that of the last event if the clock is behind it: time never runs backwards while the
  /// store is open.
  Time Now() const;

  /// Gives the event its sequence and time, writes it, applies it, and returns the sequence.
  absl::StatusOr<std::int64_t> Append(Event event);
  /// Records that the store was opened, at the time of the clock even if that is before the last event. Leases and the
  /// open round keep the time that they had left.
  absl::StatusOr<std::int64_t> AppendOpening();

  void Begin();
  void Accept();
  void RollBack();
  /// Whether an append failed, or the checkpoint is damaged: what follows from the state is not reliable.
  bool broken() const { return broken_ || !checkpoint_->damage().ok(); }
  /// Derives the state from the log alone, if the checkpoint is damaged.
  absl::Status RepairState();

  /// The event that the last checkpoint includes.
  std::int64_t checkpoint_sequence() const { return checkpoint_->position().sequence; }
  /// Writes some of what the next checkpoint lacks, which takes a few milliseconds; false once it is complete.
  absl::StatusOr<bool> WriteCheckpoint();

 private:
  Ledger(EventLog log, Checkpoint& checkpoint, const Clock& clock);
  absl::StatusOr<std::int64_t> AppendAt(Time at, Event event);
  absl::Status Load();

  EventLog log_;
  Checkpoint* checkpoint_;
  const Clock* clock_;
  CampaignState state_;
  bool broken_ = false;
};

/// The state that a checkpoint stores, or an empty one if the checkpoint is damaged, of another version, or of another
/// log. DataLoss if the checkpoint includes events that the log does not have.
absl::StatusOr<CampaignState> LoadCheckpoint(Checkpoint& checkpoint, EventLog& log);

/// Applies the events after the last one of `state`, up to `last`.
absl::Status ReplayLog(EventLog& log, CampaignState& state, std::int64_t last = kEndOfLog);

/// The position of the last event of a state.
absl::StatusOr<LogPosition> PositionOf(const CampaignState& state, EventLog& log);

// Questions about items, answered at one point of the log. Run by the store like the lease rules; they change nothing.

struct FoundItem {
  Item item = {};
  bool leased = false;                    ///< it is offered, and at least one worker has it
  std::optional<double> confidence = {};  ///< probability of the most probable class given its votes
};

struct ListItemsRequest {
  std::vector<ItemStatus> statuses = {};
  std::optional<bool> leased = {};  ///< only those that are, or are not, leased
  std::string after = {};           ///< only ids after this one
  std::string search = {};          ///< only those that match it
  std::size_t most = 0;
};
/// Whether the id, the label, the reason or an annotator contains the text, which is in lower case. All match "".
bool Matches(const Item& item, const std::string& search);
/// In the order of their ids.
absl::StatusOr<std::vector<FoundItem>> ListItems(Ledger& ledger, const ListItemsRequest& request);

struct FindItemsRequest {
  std::vector<std::string> ids = {};
};
/// In the order of the request. An item that was never batched or labeled is one in the pool, without votes.
absl::StatusOr<std::vector<FoundItem>> FindItems(Ledger& ledger, const FindItemsRequest& request);

}  // namespace fulcrum::storage
