#include "storage/maintenance/fsck.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_folder.h"
#include "storage/checksum.h"
#include "storage/log/event_log.h"
#include "storage/log/ledger.h"
#include "storage/pool/mapped_pool.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/derived_tables.h"
#include "storage/state/schema.h"

namespace fulcrum::storage {
namespace {

constexpr int kMostPageProblems = 5;

absl::Status CheckPages(SqliteDatabase& database, FsckReport& report) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement check,
                           database.Prepare(absl::StrCat("PRAGMA integrity_check(", kMostPageProblems, ")")));
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, check.Step());
    if (!has_row) return absl::OkStatus();
    const std::string finding(check.ColumnText(0));
    if (finding != "ok") report.problems.push_back(absl::StrCat("database: ", finding, "; restore a backup"));
  }
}

absl::Status CheckTriggers(SqliteDatabase& database, FsckReport& report) {
  for (const char* name : {"event_is_appended", "event_is_never_changed", "event_is_never_removed"}) {
    FULCRUM_ASSIGN_OR_RETURN(const std::string count,
                             database.QueryText(absl::StrCat(
                                 "SELECT count(*) FROM sqlite_schema WHERE type='trigger' AND name='", name, "'")));
    if (count == "1") continue;
    report.problems.push_back(absl::StrCat("schema: the trigger ", name,
                                           " is missing: somebody may have changed the log; compare with a backup"));
  }
  return absl::OkStatus();
}

/// What differs between the derived tables and the log as it was where they end.
absl::StatusOr<std::vector<std::string>> CompareTables(DerivedTables& tables, std::int64_t through, EventLog& log,
                                                       const CampaignState& now) {
  if (through == now.last_sequence()) return tables.FindDifferences(now);
  FULCRUM_ASSIGN_OR_RETURN(const CampaignState then, ReplayLog(log, through));
  return tables.FindDifferences(then, now.changes().items.Ids());
}

/// The state at the end of the log; the derived tables are compared with what it was where they end.
absl::StatusOr<CampaignState> ReplayAndCompare(SqliteDatabase& database, FsckReport& report) {
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  FULCRUM_ASSIGN_OR_RETURN(DerivedTables tables, DerivedTables::Open(database));
  FULCRUM_ASSIGN_OR_RETURN(report.events, log.LastSequence());
  const auto through = tables.Through();
  if (through.ok()) {
    report.tables_through = *through;
  } else {
    report.problems.emplace_back(through.status().message());
  }
  FULCRUM_ASSIGN_OR_RETURN(CampaignState state, ReplayLog(log, report.tables_through));
  if (report.tables_through > report.events) {
    report.problems.push_back(absl::StrCat("the derived tables go up to event ", report.tables_through,
                                           ", but the log ends with ", report.events,
                                           ": events are lost; restore a backup"));
  }
  state.ForgetChanges();
  FULCRUM_RETURN_IF_ERROR(
      log.Visit(state.last_sequence() + 1, kEndOfLog, [&](const Event& event) { return state.Apply(event); }));
  if (report.tables_through > 0 && report.tables_through <= report.events) {
    FULCRUM_ASSIGN_OR_RETURN(const auto differences, CompareTables(tables, report.tables_through, log, state));
    report.problems.insert(report.problems.end(), differences.begin(), differences.end());
  }
  return state;
}

void CheckFiles(const CampaignFolder& folder, const CampaignState& state, FsckReport& report) {
  for (const Round& round : state.rounds()) {
    for (const absl::string_view name : absl::StrSplit(round.files, '\n', absl::SkipEmpty())) {
      std::error_code error;
      if (std::filesystem::exists(folder.File(std::string(name)), error)) continue;
      report.problems.push_back(absl::StrCat("round ", round.number, ": the file ", name, " is missing"));
    }
  }
  for (const AppendedRows& rows : state.appended()) {
    std::error_code error;
    if (std::filesystem::is_directory(folder.File(rows.folder), error)) continue;
    report.problems.push_back(absl::StrCat("rows appended by event ", rows.sequence, ": the folder ", rows.folder,
                                           " is missing; restore a backup"));
  }
  for (const StoredModel& model : state.models()) {
    const auto checksum = ChecksumOfFile(folder.File(model.file));
    if (checksum.ok() && *checksum == model.checksum) continue;
    report.problems.push_back(absl::StrCat("model of round ", model.round, ": ",
                                           checksum.ok() ? absl::StrCat("the file ", model.file, " is damaged")
                                                         : std::string(checksum.status().message())));
  }
}

/// Reads every block of the campaign's pools and compares its checksum.
void CheckPools(const CampaignFolder& folder, FsckReport& report) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder.pool(), error)) {
    if (!IsPoolFolder(entry.path().string())) continue;
    const absl::StatusOr<MappedPool> pool = MappedPool::Open(entry.path().string());
    const absl::Status status = pool.ok() ? pool->Verify() : pool.status();
    if (!status.ok()) report.problems.push_back(absl::StrCat("pool: ", status.message()));
  }
}

}  // namespace

absl::StatusOr<FsckReport> CheckCampaign(const std::string& path) {
  const CampaignFolder folder(path);
  FULCRUM_RETURN_IF_ERROR(folder.Check());
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase database,
                           SqliteDatabase::Open(folder.database(), {.read_only = true, .check_integrity = false}));
  FULCRUM_ASSIGN_OR_RETURN(const SqliteTransaction snapshot, SqliteTransaction::BeginRead(database));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t version, CheckSchema(database));
  FsckReport report;
  FULCRUM_RETURN_IF_ERROR(CheckPages(database, report));
  if (version != LatestSchemaVersion()) {
    report.problems.push_back(absl::StrCat("schema: version ", version, ", and this program works with ",
                                           LatestSchemaVersion(), "; --rebuild brings it up to date"));
    return report;
  }
  FULCRUM_RETURN_IF_ERROR(CheckTriggers(database, report));
  const auto state = ReplayAndCompare(database, report);
  if (!state.ok()) {
    report.problems.push_back(absl::StrCat("log: ", state.status().message()));
    return report;
  }
  report.labels = state->totals().labels;
  report.items = static_cast<std::int64_t>(state->items().size());
  report.rounds = static_cast<std::int64_t>(state->rounds().size());
  report.models = static_cast<std::int64_t>(state->models().size());
  CheckFiles(folder, *state, report);
  CheckPools(folder, report);
  return report;
}

absl::Status RebuildCampaign(const std::string& path) {
  const CampaignFolder folder(path);
  FULCRUM_RETURN_IF_ERROR(folder.Check());
  FULCRUM_ASSIGN_OR_RETURN(const FileLock lock, LockCampaign(folder));
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(folder.database()));
  FULCRUM_RETURN_IF_ERROR(Migrate(database));
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  FULCRUM_ASSIGN_OR_RETURN(const CampaignState state, ReplayLog(log));
  FULCRUM_ASSIGN_OR_RETURN(DerivedTables tables, DerivedTables::Open(database));
  FULCRUM_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::BeginWrite(database));
  FULCRUM_RETURN_IF_ERROR(tables.Rewrite(state));
  return transaction.Commit();
}

}  // namespace fulcrum::storage
