// The append-only log of a campaign, as a table.
//
// Every event is stored with a checksum of itself and of all events before it. Reading compares these checksums, so a
// changed, missing or inserted event is found. Events that were written before the log had checksums are covered by one
// for all of them, which was computed when the schema was upgraded.
//
// Belongs to one connection, like its statements, and is used by the thread that uses the connection. Whether an append
// lasts is decided by the transaction around it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/clock.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::storage {

// One line of a campaign's log: something that happened.
//
// The log is the only truth of a campaign; everything else is derived from it by CampaignState::Apply. A plain value.
// Kinds and their numbers are part of the file format: add, never change.

/// What an event is about, and which fields it uses besides sequence, kind and at.
enum class EventKind : std::int64_t {
  kStoreOpened = 1,      ///< number: microseconds since the event before, which do not count for leases and rounds;
                         ///< negative if the clock was set back
  kSettingsChanged = 2,  ///< detail: CampaignSettings as text
  kLifeChanged = 3,      ///< value: the new life ("running", "paused", ...), reason
  kBatchCommitted = 10,  ///< round, number: log sequence the batch is based on, detail: the round's files
  kItemBatched = 11,     ///< round, item, number: rank in the batch, cost: what a label of it costs
  kRoundClosed = 12,     ///< round, reason
  kModelStored = 13,     ///< round, number: log sequence trained on, value: file, detail: checksum of the file, reason:
                         ///< what is known of the model, in the words of whoever trained it
  kRowsAppended = 14,    ///< annotator: who, number: rows, value: their folder, detail: what whoever appended answered
  kRetrainRequested = 15,  ///< the next round is to start from nothing
  kLeaseGranted = 20,      ///< annotator, item, slot, epoch, round, number: expiry; its sequence is the lease's id
  kLeaseRenewed = 21,      ///< annotator, lease, epoch, number: expiry
  kLeaseReleased = 22,     ///< annotator, lease, epoch
  kLeaseExpired = 23,      ///< annotator, lease, epoch
  kLabelSubmitted = 30,    ///< annotator, item, slot, lease, epoch, round, value, cost, reason: "late" or nothing
  kLabelChanged = 31,      ///< annotator, item, value
  kLabelWithdrawn = 32,    ///< annotator, item
  kLabelImported = 33,     ///< annotator: where from, item, value
  kTaskSkipped = 40,       ///< annotator, item, slot, lease, epoch, round, reason: a SkipReason
  kItemSetAside = 41,      ///< item, reason
  kItemReturned = 42,      ///< item, annotator: who returned it to the pool
};

/// "lease_granted"; "unknown" for a number that is no kind.
const char* EventKindName(EventKind kind);
bool IsEventKind(std::int64_t number);

struct Event {
  std::int64_t sequence = 0;  ///< from 1, without gaps; set by the log
  EventKind kind = EventKind::kStoreOpened;
  Time at = {};  ///< never before the event before, except when the store was opened; set by the ledger
  std::string annotator = {};
  std::string request_id = {};   ///< empty where the event came from the store itself
  std::int64_t fingerprint = 0;  ///< of the request's content
  std::string item = {};
  std::int64_t slot = 0;
  std::int64_t lease = 0;
  std::int64_t epoch = 0;
  std::int64_t round = 0;
  std::string value = {};
  std::string reason = {};
  double cost = 0;
  std::int64_t number = 0;
  std::string detail = {};

  bool operator==(const Event&) const = default;
};

inline constexpr char kEventTable[] = "event";

/// The checksum of a log up to and including `event`, given the one before it; that of an empty log is 0. Two logs that
/// differ in eight adjacent bytes at most never have the same one.
std::uint64_t ExtendChain(std::uint64_t chain, const Event& event);

/// A position in the log and the checksum of everything up to it.
struct LogPosition {
  std::int64_t sequence = 0;
  std::uint64_t chain = 0;

  bool operator==(const LogPosition&) const = default;
};

class EventLog {
 public:
  /// The database must outlive the log and have the event table, with checksums or without.
  static absl::StatusOr<EventLog> Open(SqliteDatabase& database);

  /// Adds an event whose sequence is one more than the last one's; the table refuses any other.
  absl::Status Append(const Event& event);
  /// The event with this sequence; NotFound if there is none.
  absl::StatusOr<Event> Find(std::int64_t sequence);
  /// Calls `visit` for the events from `first` to `last` in order, until it returns something other than OK. DataLoss
  /// before the first event that is not what was written.
  absl::Status Visit(std::int64_t first, std::int64_t last, const std::function<absl::Status(const Event&)>& visit);
  absl::StatusOr<std::int64_t> LastSequence();
  /// The checksum that is stored for the log up to `sequence`: nothing for events from before there were checksums.
  absl::StatusOr<std::optional<std::uint64_t>> StoredChain(std::int64_t sequence);

  /// The last event that was appended here, whether it was committed or not.
  const LogPosition& last_appended() const { return appended_; }

 private:
  EventLog(SqliteStatement append, SqliteStatement range, SqliteStatement last);

  std::optional<std::uint64_t> ChainOfRow() const;
  /// The chain after the current row, given the one before it if it is known.
  absl::StatusOr<std::optional<std::uint64_t>> CheckRow(std::optional<std::uint64_t> before, const Event& event) const;

  SqliteStatement append_;
  SqliteStatement range_;
  SqliteStatement last_;
  bool has_chain_ = false;  ///< the table has the column
  LogPosition start_;       ///< events up to here have no checksum of their own
  LogPosition appended_;    ///< the last event that was appended here
};

/// Past every sequence there can be.
inline constexpr std::int64_t kEndOfLog = INT64_MAX;

}  // namespace fulcrum::storage
