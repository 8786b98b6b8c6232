
#include <array>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/log/event_log.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::storage {
namespace {

// "FLCM": tells a campaign from any other SQLite database.
constexpr std::int64_t kApplicationId = 0x464C434D;

// Columns that an event does not use are NULL, so that a row takes little space. Which kind uses which column is in
// event.h. The triggers prevent INSERT OR REPLACE too, which removes rows without a DELETE.
constexpr const char* kLog = R"sql(
CREATE TABLE event(
  sequence INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  at_us INTEGER NOT NULL,
  annotator TEXT, request_id TEXT, fingerprint INTEGER,
  item TEXT, slot INTEGER, lease INTEGER, epoch INTEGER, round INTEGER,
  value TEXT, reason TEXT, cost REAL, number INTEGER, detail TEXT);
CREATE TRIGGER event_is_appended BEFORE INSERT ON event
  WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM event)
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: events are added at its end, one after the other'); END;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: an event is never changed'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
  BEGIN SELECT RAISE(ABORT, 'the log is append-only: an event is never removed'); END;
)sql";

// What follows from the log, for SQL queries. Version 4 replaces these tables.
constexpr const char* kDerivedTables = R"sql(
CREATE TABLE derived(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE item(item TEXT PRIMARY KEY, status TEXT NOT NULL, value TEXT NOT NULL, reason TEXT NOT NULL,
  round INTEGER NOT NULL, rank INTEGER NOT NULL, cost TEXT NOT NULL, decided_sequence INTEGER NOT NULL,
  votes TEXT NOT NULL, declined_by TEXT NOT NULL, imported TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE slot(item TEXT NOT NULL, slot INTEGER NOT NULL, status TEXT NOT NULL, round INTEGER NOT NULL,
  lease INTEGER NOT NULL, epoch INTEGER NOT NULL, attempts INTEGER NOT NULL, passes INTEGER NOT NULL,
  PRIMARY KEY(item, slot)) WITHOUT ROWID;
CREATE TABLE lease(lease INTEGER PRIMARY KEY, item TEXT NOT NULL, slot INTEGER NOT NULL, epoch INTEGER NOT NULL,
  annotator TEXT NOT NULL, round INTEGER NOT NULL, expires_us INTEGER NOT NULL, UNIQUE(item, slot));
CREATE TABLE round(round INTEGER PRIMARY KEY, status TEXT NOT NULL, started_us INTEGER NOT NULL,
  closed_us INTEGER NOT NULL, reason TEXT NOT NULL, items INTEGER NOT NULL, labeled INTEGER NOT NULL,
  disputed INTEGER NOT NULL, set_aside INTEGER NOT NULL, based_on INTEGER NOT NULL, files TEXT NOT NULL);
)sql";

// Events carry a checksum of the log up to them. Those that are older than this column keep NULL, and `chain_start` has
// the checksum of all of them: rewriting the log would be the greater risk.
constexpr const char* kChain = R"sql(
ALTER TABLE event ADD COLUMN chain INTEGER;
CREATE TABLE chain_start(sequence INTEGER PRIMARY KEY, chain INTEGER NOT NULL);
)sql";

// The derived tables become the checkpoint that a campaign is opened from. What they held is derived again from the
// log. Lists are JSON arrays; a slot that is leased has its lease at the end. `item_before` has the rows that a
// checkpoint which is being written has replaced.
constexpr const char* kCheckpoint = R"sql(
DROP TABLE derived; DROP TABLE item; DROP TABLE slot; DROP TABLE lease; DROP TABLE round;
CREATE TABLE derived(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE item(item TEXT PRIMARY KEY, status TEXT NOT NULL, value TEXT NOT NULL, reason TEXT NOT NULL,
  round INTEGER NOT NULL, rank INTEGER NOT NULL, cost REAL NOT NULL, decided_sequence INTEGER NOT NULL,
  imported TEXT NOT NULL, bad_reports INTEGER NOT NULL, next_slot INTEGER NOT NULL, first_sequence INTEGER NOT NULL,
  votes TEXT NOT NULL, declined_by TEXT NOT NULL, slots TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX item_with_slots ON item(item) WHERE slots<>'[]';
CREATE INDEX item_by_status ON item(status, item) WHERE status<>'labeled' AND status<>'offered';
CREATE TABLE item_before(item TEXT PRIMARY KEY, status TEXT NOT NULL, value TEXT NOT NULL, reason TEXT NOT NULL,
  round INTEGER NOT NULL, rank INTEGER NOT NULL, cost REAL NOT NULL, decided_sequence INTEGER NOT NULL,
  imported TEXT NOT NULL, bad_reports INTEGER NOT NULL, next_slot INTEGER NOT NULL, first_sequence INTEGER NOT NULL,
  votes TEXT NOT NULL, declined_by TEXT NOT NULL, slots TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE request(high INTEGER NOT NULL, low INTEGER NOT NULL, sequence INTEGER NOT NULL,
  PRIMARY KEY(high, low)) WITHOUT ROWID;
CREATE TABLE round(round INTEGER PRIMARY KEY, status TEXT NOT NULL, started_us INTEGER NOT NULL,
  closed_us INTEGER NOT NULL, reason TEXT NOT NULL, items INTEGER NOT NULL, labeled INTEGER NOT NULL,
  disputed INTEGER NOT NULL, set_aside INTEGER NOT NULL, based_on INTEGER NOT NULL, files TEXT NOT NULL);
CREATE TABLE model(sequence INTEGER PRIMARY KEY, round INTEGER NOT NULL, trained_on INTEGER NOT NULL,
  file TEXT NOT NULL, checksum TEXT NOT NULL, record TEXT NOT NULL, at_us INTEGER NOT NULL);
CREATE INDEX model_of_round ON model(round, sequence);
CREATE VIEW slot AS SELECT item.item, json_extract(s.value, '$[0]') AS slot, json_extract(s.value, '$[1]') AS status,
  json_extract(s.value, '$[2]') AS round, json_extract(s.value, '$[3]') AS lease,
  json_extract(s.value, '$[4]') AS epoch, json_extract(s.value, '$[5]') AS attempts,
  json_extract(s.value, '$[6]') AS passes, s.value AS json
  FROM item, json_each(item.slots) AS s WHERE item.slots<>'[]';
CREATE VIEW lease AS SELECT lease, item, slot, epoch, json_extract(json, '$[7]') AS annotator,
  json_extract(json, '$[8]') AS round, json_extract(json, '$[9]') AS expires_us,
  json_extract(json, '$[10]') AS cost FROM slot WHERE lease<>0;
)sql";

// The history of an item: its events up to the one that the checkpoint includes. Kept apart from the log, so that a
// commit does not write into an index of all items.
constexpr const char* kHistory = R"sql(
CREATE TABLE item_event(item TEXT NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY(item, sequence)) WITHOUT ROWID;
)sql";

constexpr std::array kMigrations = {kLog, kDerivedTables, kChain, kCheckpoint, kHistory};
constexpr std::int64_t kVersionWithChain = 3;
constexpr std::int64_t kVersionWithCheckpoint = 5;

absl::StatusOr<std::int64_t> Pragma(SqliteDatabase& database, const std::string& name) {
  FULCRUM_ASSIGN_OR_RETURN(const std::string text, database.QueryText(absl::StrCat("PRAGMA ", name)));
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return absl::InternalError(absl::StrCat("PRAGMA ", name, " is '", text, "'"));
  return value;
}

/// Where the log ends, with the checksum of all its events.
absl::StatusOr<LogPosition> EndOfLog(SqliteDatabase& database) {
  LogPosition end;
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  FULCRUM_RETURN_IF_ERROR(log.VisitRows(1, kEndOfLog, [&](const EventRow& row) {
    end = {row.sequence, ExtendChain(end.chain, row)};
    return absl::OkStatus();
  }));
  return end;
}

absl::Status RecordChainStart(SqliteDatabase& database, const LogPosition& start) {
  if (start.sequence == 0) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement insert, database.Prepare("INSERT INTO chain_start VALUES (?1, ?2)"));
  FULCRUM_RETURN_IF_ERROR(insert.Bind(1, start.sequence));
  FULCRUM_RETURN_IF_ERROR(insert.Bind(2, static_cast<std::int64_t>(start.chain)));
  return insert.Run();
}

absl::Status RunMigration(SqliteDatabase& database, std::int64_t version) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::BeginWrite(database));
  LogPosition end;
  if (version == kVersionWithChain) {
    FULCRUM_ASSIGN_OR_RETURN(end, EndOfLog(database));
  }
  FULCRUM_RETURN_IF_ERROR(database.Execute(kMigrations[static_cast<std::size_t>(version - 1)]));
  FULCRUM_RETURN_IF_ERROR(RecordChainStart(database, end));
  FULCRUM_RETURN_IF_ERROR(
      database.Execute(absl::StrCat("PRAGMA application_id=", kApplicationId, "; PRAGMA user_version=", version, ";")));
  return transaction.Commit();
}

}  // namespace

std::int64_t LatestSchemaVersion() {
  return static_cast<std::int64_t>(kMigrations.size());
}

std::int64_t OldestReadableSchemaVersion() {
  return kVersionWithChain - 1;
}

bool HasCheckpoint(std::int64_t version) {
  return version >= kVersionWithCheckpoint;
}

absl::StatusOr<std::int64_t> CheckSchema(SqliteDatabase& database) {
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t version, Pragma(database, "user_version"));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t application, Pragma(database, "application_id"));
  FULCRUM_ASSIGN_OR_RETURN(const std::string tables, database.QueryText("SELECT count(*) FROM sqlite_schema"));
  if (application != kApplicationId && tables != "0") {
    return absl::FailedPreconditionError(absl::StrCat(database.path(),
                                                      " is an SQLite database, but not a campaign's (application id ",
                                                      application, "); check the path"));
  }
  if (version > LatestSchemaVersion()) {
    return absl::FailedPreconditionError(absl::StrCat(database.path(), " has schema version ", version,
                                                      ", and this program knows versions up to ", LatestSchemaVersion(),
                                                      ": a newer fulcrum wrote it; use that one, nothing was changed"));
  }
  return version;
}

absl::Status Migrate(SqliteDatabase& database, std::int64_t version) {
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t present, CheckSchema(database));
  for (std::int64_t next = present + 1; next <= version; ++next) {
    FULCRUM_RETURN_IF_ERROR(RunMigration(database, next));
  }
  return absl::OkStatus();
}

}  // namespace fulcrum::storage
