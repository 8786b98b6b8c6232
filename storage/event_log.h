// The append-only log of a campaign, as a table.
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
#include "storage/event.h"
#include "storage/sqlite_database.h"

namespace fulcrum::storage {

inline constexpr char kEventTable[] = "event";

class EventLog {
 public:
  /// The database must outlive the log and have the event table.
  static absl::StatusOr<EventLog> Open(SqliteDatabase& database);

  /// Adds an event whose sequence is one more than the last one's; the table refuses any other.
  absl::Status Append(const Event& event);
  /// The event with this sequence; NotFound where there is none.
  absl::StatusOr<Event> Find(std::int64_t sequence);
  /// Calls `visit` for the events from `first` to `last` in order, until it says something other than OK.
  absl::Status Visit(std::int64_t first, std::int64_t last, const std::function<absl::Status(const Event&)>& visit);
  absl::StatusOr<std::int64_t> LastSequence();

 private:
  EventLog(SqliteStatement append, SqliteStatement range, SqliteStatement last);

  SqliteStatement append_;
  SqliteStatement range_;
  SqliteStatement last_;
};

/// Past every sequence there can be.
inline constexpr std::int64_t kEndOfLog = INT64_MAX;

}  // namespace fulcrum::storage
