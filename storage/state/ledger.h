// The log and the state derived from it, moving together, and the time.
//
// Rules (lease_rules.h, label_rules.h, round_rules.h) read the state, decide, and append events; an appended event is
// applied at once. A rule makes all its checks before its first Append, so that a refusal leaves nothing behind.
// Belongs to the thread that writes. The transaction around the appends is the caller's.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/clock.h"
#include "storage/log/event_log.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

class Ledger {
 public:
  /// The database and the clock must outlive the ledger. Reads the whole log; changes are counted from the event after
  /// `changes_after`.
  static absl::StatusOr<Ledger> Open(SqliteDatabase& database, const Clock& clock, std::int64_t changes_after = 0);

  const CampaignState& state() const { return state_; }
  EventLog& log() { return log_; }

  /// The clock's time, or that of the last event if the clock is behind it: while the store is open, time never runs
  /// backwards.
  Time Now() const;

  /// Gives the event its sequence and time, writes it, applies it, and returns the sequence.
  absl::StatusOr<std::int64_t> Append(Event event);
  /// Records that the store was opened, at the clock's time even if that is before the last event. Leases and the open
  /// round keep the time that they had left.
  absl::StatusOr<std::int64_t> AppendOpening();

  /// Whether an append failed: log and state may differ until Reload.
  bool broken() const { return broken_; }
  /// Derives the state anew, after a transaction was rolled back.
  absl::Status Reload();

  /// The last event that the derived tables hold; the state's changes are those since then.
  std::int64_t changes_after() const { return changes_after_; }
  /// Items whose rows the derived tables lack; whoever takes some writes them or adds them again.
  ChangedItems& changed_items() { return state_.changed_items(); }
  /// Changes are counted from here on.
  void TablesAreUpToDate();

 private:
  Ledger(EventLog log, const Clock& clock);
  absl::StatusOr<std::int64_t> AppendAt(Time at, Event event);

  EventLog log_;
  const Clock* clock_;
  CampaignState state_;
  std::int64_t changes_after_ = 0;
  bool broken_ = false;
};

/// Replays the log up to `last` into an empty state.
absl::StatusOr<CampaignState> ReplayLog(EventLog& log, std::int64_t last = kEndOfLog);

}  // namespace fulcrum::storage
