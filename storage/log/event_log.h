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
#include "storage/log/event.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::storage {

inline constexpr char kEventTable[] = "event";

/// The checksum of a log up to and including a row, given the one before it; that of an empty log is 0. Two logs that
/// differ in eight adjacent bytes at most never have the same one.
std::uint64_t ExtendChain(std::uint64_t chain, const EventRow& row);

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
  absl::Status Append(const EventRow& row);
  /// The event with this sequence; NotFound if there is none.
  absl::StatusOr<Event> Find(std::int64_t sequence);
  /// Calls `visit` for the events from `first` to `last` in order, until it returns something other than OK. DataLoss
  /// before the first event that is not what was written.
  absl::Status Visit(std::int64_t first, std::int64_t last, const std::function<absl::Status(const Event&)>& visit);
  /// The same for events as they are stored, whether their kind is known or not.
  absl::Status VisitRows(std::int64_t first, std::int64_t last, const std::function<absl::Status(EventRow)>& visit);
  absl::StatusOr<std::int64_t> LastSequence();
  /// The checksum that is stored for the log up to `sequence`: nothing for events from before there were checksums.
  absl::StatusOr<std::optional<std::uint64_t>> StoredChain(std::int64_t sequence);

  /// The last event that was appended here, whether it was committed or not.
  const LogPosition& last_appended() const { return appended_; }

 private:
  EventLog(SqliteStatement append, SqliteStatement range, SqliteStatement last);

  std::optional<std::uint64_t> ChainOfRow() const;
  /// The chain after the current row, given the one before it if it is known.
  absl::StatusOr<std::optional<std::uint64_t>> CheckRow(std::optional<std::uint64_t> before, const EventRow& row) const;

  SqliteStatement append_;
  SqliteStatement range_;
  SqliteStatement last_;
  bool has_chain_ = false;  ///< the table has the column
  LogPosition start_;       ///< events up to here have no checksum of their own
  LogPosition appended_;    ///< the last event that was appended here
};

/// Past every sequence there can be.
inline constexpr std::int64_t kEndOfLog = INT64_MAX;

// The tables of campaign.db, and how older ones are upgraded.
//
// The version is SQLite's user_version. Each migration is one transaction, so that an interrupted one leaves the
// previous version.

/// The version that this program writes.
std::int64_t LatestSchemaVersion();
/// The oldest version that can be read without being upgraded: the log has no checksums there.
std::int64_t OldestReadableSchemaVersion();

/// Whether a database of this version has the tables of a checkpoint (storage/checkpoint/checkpoint.h).
bool HasCheckpoint(std::int64_t version);

/// The version of a campaign's database; 0 for an empty one. FailedPrecondition for a database that is not a
/// campaign's, or one that a newer program wrote.
absl::StatusOr<std::int64_t> CheckSchema(SqliteDatabase& database);

/// Upgrades the tables to `version`; tests use older ones than the latest.
absl::Status Migrate(SqliteDatabase& database, std::int64_t version = LatestSchemaVersion());

// The last event that a campaign's log is known to have held, in a file next to the database.
//
// It is written after every commit and synced whenever the store has time, so it never claims more than was committed.
// A log that ends before it, or has another event there, has lost committed events. Used by one thread at a time.

class HighWaterFile {
 public:
  /// Opens the file for writing; it is created if it does not exist.
  static absl::StatusOr<HighWaterFile> Open(const std::string& path);
  /// The content of the file; nullopt if it does not exist. DataLoss if it is damaged.
  static absl::StatusOr<std::optional<LogPosition>> Read(const std::string& path);

  HighWaterFile(HighWaterFile&& other) noexcept;
  HighWaterFile& operator=(HighWaterFile&&) = delete;
  ~HighWaterFile();

  /// Replaces the record. A killed process does not lose it; a power failure may, until Sync.
  absl::Status Record(const LogPosition& position);
  absl::Status Sync();

 private:
  HighWaterFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  bool synced_ = true;
};

/// OK if the log holds the event that the file knows of; DataLoss with the number of missing events otherwise.
absl::Status CheckHighWater(EventLog& log, const std::optional<LogPosition>& known);

}  // namespace fulcrum::storage
