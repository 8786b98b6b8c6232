#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/campaign_folder.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/log/event_log.h"
#include "storage/maintenance/maintenance.h"
#include "storage/pool/mapped_pool.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {
namespace {

namespace fs = std::filesystem;

constexpr int kMostPageProblems = 5;

/// What the files next to the database know of the log. Collected before the database is opened: later commits can only
/// add events, so the log must have all that is known here.
struct Evidence {
  absl::StatusOr<std::optional<LogPosition>> high_water = std::optional<LogPosition>();
  std::vector<std::string> lost_events = {};
  std::int64_t trained_on = 0;  ///< the last event that a model was trained on
  std::string model = {};       ///< that model
  std::int64_t round = 0;       ///< the last round that has a file
  std::string round_file = {};  ///< that file
};

Evidence CollectEvidence(const CampaignFolder& folder) {
  Evidence evidence{.high_water = HighWaterFile::Read(folder.high_water())};
  std::ifstream losses(folder.lost_events());
  for (std::string line; std::getline(losses, line);) evidence.lost_events.push_back(line);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.models(), error)) {
    const std::string name = entry.path().filename().string();
    std::int64_t round = 0;
    std::int64_t trained_on = 0;
    const bool is_model =
        absl::EndsWith(name, ".model") && std::sscanf(name.c_str(), "%" SCNd64 "-%" SCNd64, &round, &trained_on) == 2;
    if (is_model && trained_on > evidence.trained_on) {
      evidence.trained_on = trained_on;
      evidence.model = name;
    }
  }
  for (const auto& entry : fs::directory_iterator(folder.rounds(), error)) {
    const std::string name = entry.path().filename().string();
    std::int64_t round = 0;
    if (std::sscanf(name.c_str(), "%" SCNd64 "-", &round) == 1 && round > evidence.round) {
      evidence.round = round;
      evidence.round_file = name;
    }
  }
  return evidence;
}

/// The log must reach as far as every file next to it says.
absl::Status CheckEvidence(const Evidence& evidence, EventLog& log, std::int64_t rounds, FsckReport& report) {
  if (!evidence.high_water.ok()) {
    report.problems.push_back(absl::StrCat(evidence.high_water.status().message(), "; opening the campaign writes it"));
  } else if (const absl::Status status = CheckHighWater(log, *evidence.high_water); absl::IsDataLoss(status)) {
    report.problems.push_back(absl::StrCat("log: ", status.message()));
  } else if (!status.ok()) {
    return status;
  }
  for (const std::string& loss : evidence.lost_events) {
    report.problems.push_back(
        absl::StrCat("log: ", loss, ". To continue without these events, delete the file campaign.lost-events"));
  }
  if (evidence.trained_on > report.events) {
    report.problems.push_back(absl::StrCat("log: it ends with event ", report.events, ", but models/", evidence.model,
                                           " was trained on event ", evidence.trained_on, ": at least ",
                                           evidence.trained_on - report.events,
                                           " events are missing. Restore a backup"));
  }
  // Files are written before their round is committed, so those of the next round may exist.
  if (evidence.round > rounds + 1) {
    report.problems.push_back(absl::StrCat("log: it knows ", rounds, " rounds, but rounds/", evidence.round_file,
                                           " belongs to round ", evidence.round, ": the events of ",
                                           evidence.round - 1 - rounds, " rounds are missing. Restore a backup"));
  }
  return absl::OkStatus();
}

/// The store does not open an empty database; its log may be in the write-ahead log all the same.
void CheckEmptyDatabase(const CampaignFolder& folder, const Evidence& evidence, std::int64_t version,
                        FsckReport& report) {
  const std::int64_t known = evidence.high_water.ok() && *evidence.high_water ? (*evidence.high_water)->sequence : 0;
  report.problems.push_back(
      version == 0 ? absl::StrCat("database: ", folder.database(), " is empty, and ",
                                  std::max(known, evidence.trained_on), " events are missing. Restore a backup")
                   : absl::StrCat("database: ", folder.database(),
                                  " is empty, but its write-ahead log is readable. Rebuilding puts it back"));
}

/// A database to read, and the copy that it is, if it is one. The copy goes last.
struct OpenedDatabase {
  std::optional<DatabaseCopy> copy = {};
  SqliteDatabase database;
};

/// Nothing in the folder of the campaign changes. While a process writes to the campaign, a connection that only reads
/// leaves the files alone; otherwise SQLite might recover or delete the write-ahead log, so a copy is read.
absl::StatusOr<OpenedDatabase> OpenWithoutChanges(const CampaignFolder& folder) {
  std::error_code error;
  std::optional<DatabaseCopy> copy;
  {
    const absl::StatusOr<FileLock> lock =
        fs::exists(folder.lock(), error)
            ? FileLock::Take(folder.lock())
            : absl::StatusOr<FileLock>(absl::NotFoundError("no process has written to the campaign"));
    if (lock.ok() || absl::IsNotFound(lock.status())) {
      FULCRUM_ASSIGN_OR_RETURN(DatabaseCopy made, DatabaseCopy::MakeTemporary(folder));
      copy.emplace(std::move(made));
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(
      SqliteDatabase database,
      SqliteDatabase::Open(copy ? copy->path() : folder.database(), {.read_only = true, .check_integrity = false}));
  return OpenedDatabase{std::move(copy), std::move(database)};
}

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
                                           " is missing: the log may have been changed; compare with a backup"));
  }
  return absl::OkStatus();
}

/// Compares the derived tables with the state at the event that they include, and returns that state.
absl::StatusOr<CampaignState> CompareTables(SqliteDatabase& database, EventLog& log, FsckReport& report) {
  CampaignState state;
  FULCRUM_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(database));
  if (const absl::Status loaded = checkpoint->Load(); !loaded.ok()) {
    report.problems.push_back(absl::StrCat("derived tables: ", loaded.message(), "; rebuilding writes them again"));
    return state;
  }
  report.tables_through = checkpoint->position().sequence;
  if (report.tables_through > report.events) {
    report.problems.push_back(absl::StrCat(
        "derived tables: they include event ", report.tables_through, ", but the log ends with event ", report.events,
        ": ", report.tables_through - report.events, " events are missing. Restore a backup"));
    return state;
  }
  FULCRUM_RETURN_IF_ERROR(ReplayLog(log, state, report.tables_through));
  if (report.tables_through > 0) {
    for (std::string& line : FindDifferences(*checkpoint, state)) report.problems.push_back(std::move(line));
  }
  return state;
}

/// The state at the end of the log. The derived tables are compared with the state at the event that they include.
absl::StatusOr<CampaignState> ReplayAndCompare(SqliteDatabase& database, std::int64_t version, EventLog& log,
                                               FsckReport& report) {
  CampaignState state;
  if (HasCheckpoint(version)) {
    FULCRUM_ASSIGN_OR_RETURN(state, CompareTables(database, log, report));
  }
  state.ForgetChanges();
  FULCRUM_RETURN_IF_ERROR(ReplayLog(log, state));
  return state;
}

/// A round reads what the round before it stored, and users read all of them.
void CheckRound(const CampaignFolder& folder, const Round& round, FsckReport& report) {
  if (absl::StrContains(round.files, "-scores.parquet")) {
    const auto predictions = ReadRoundPredictions(folder, round.number);
    // A file that is missing is reported with the others, unless it was removed.
    const bool exists =
        std::filesystem::exists(folder.File(absl::StrFormat("rounds/%06d-scores.parquet", round.number)));
    if (!predictions.ok() && exists) {
      report.problems.push_back(absl::StrCat("round ", round.number, ": its scores cannot be read: ",
                                             predictions.status().message(), "; restore a backup"));
    }
  }
  const auto landmarks = ReadLandmarkFile(folder, round.number, std::numeric_limits<std::size_t>::max());
  if (!landmarks.ok()) {
    report.problems.push_back(absl::StrCat("round ", round.number, ": ", landmarks.status().message()));
  }
}

void CheckFiles(const CampaignFolder& folder, const CampaignState& state, FsckReport& report) {
  state.rounds().Visit([&](const Round& round) {
    CheckRound(folder, round, report);
    for (const absl::string_view name : absl::StrSplit(round.files, '\n', absl::SkipEmpty())) {
      std::error_code error;
      if (std::filesystem::exists(folder.File(std::string(name)), error) || WasRemoved(folder, name)) continue;
      report.problems.push_back(absl::StrCat("round ", round.number, ": the file ", name, " is missing"));
    }
  });
  for (const AppendedRows& rows : state.appended()) {
    std::error_code error;
    if (std::filesystem::is_directory(folder.File(rows.folder), error)) continue;
    report.problems.push_back(absl::StrCat("rows appended by event ", rows.sequence, ": the folder ", rows.folder,
                                           " is missing; restore a backup"));
  }
  if (const auto& task = state.model_task()) {
    const auto check = [&](const char* what, std::int64_t round, const std::string& file, const std::string& checksum) {
      const auto found = file.empty() ? checksum : ChecksumOfFile(folder.File(file));
      if (found.ok() && *found == checksum) return;
      report.problems.push_back(
          absl::StrCat(what, " for round ", round, ": the file ", file, " is missing or damaged; restore a backup"));
    };
    check("predictions", task->round, task->file, task->checksum);
    for (const ModelFeatures& each : {task->features, task->before}) {
      check("features of a model", each.round, each.file, each.checksum);
    }
  }
  state.rounds().VisitModels([&](const StoredModel& model) {
    const auto checksum = ChecksumOfFile(folder.File(model.file));
    if (checksum.ok() ? *checksum == model.checksum : WasRemoved(folder, model.file)) return;
    report.problems.push_back(absl::StrCat("model of round ", model.round, ": ",
                                           checksum.ok() ? absl::StrCat("the file ", model.file, " is damaged")
                                                         : std::string(checksum.status().message())));
  });
}

/// Reads every block of a pool and compares its checksum, and what was computed when it was imported.
absl::Status CheckPool(const std::string& folder) {
  FULCRUM_ASSIGN_OR_RETURN(const MappedPool pool, MappedPool::Open(folder));
  FULCRUM_RETURN_IF_ERROR(pool.Verify());
  FULCRUM_ASSIGN_OR_RETURN(const FeatureStatistics statistics, pool.Statistics());
  if (statistics.features() == static_cast<std::size_t>(pool.manifest().features)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("'", folder, "/", pool.manifest().statistics_file, "' describes ",
                                          statistics.features(), " features, and the pool has ",
                                          pool.manifest().features, "; restore it, or import the pool again"));
}

void CheckPools(const CampaignFolder& folder, FsckReport& report) {
  std::error_code error;
  // As a backup without the pool restores it.
  if (!fs::exists(folder.imported_pool(), error) || fs::is_empty(folder.imported_pool(), error)) {
    report.notes.push_back(absl::StrCat("pool: none found in '", folder.imported_pool(),
                                        "'; the daemon imports it again when it opens the campaign, for which the "
                                        "sources must still exist, unchanged"));
  }
  for (const auto& entry : fs::directory_iterator(folder.pool(), error)) {
    const std::string path = entry.path().string();
    if (IsPoolFolder(path)) {
      const absl::Status status = CheckPool(path);
      if (!status.ok()) report.problems.push_back(absl::StrCat("pool: ", status.message()));
    } else if ((path == folder.imported_pool() || path == folder.validation_pool()) && !fs::is_empty(path, error)) {
      report.problems.push_back(absl::StrCat("pool: '", path, "' has no ", kPoolManifestName,
                                             ": its import did not finish, or the file was removed; the daemon imports "
                                             "it again if the sources still exist, otherwise restore a backup"));
    }
  }
}

}  // namespace

absl::StatusOr<FsckReport> CheckCampaign(const std::string& path) {
  const CampaignFolder folder(path);
  FULCRUM_RETURN_IF_ERROR(folder.Check());
  const Evidence evidence = CollectEvidence(folder);
  FULCRUM_ASSIGN_OR_RETURN(OpenedDatabase opened, OpenWithoutChanges(folder));
  SqliteDatabase& database = opened.database;
  FULCRUM_ASSIGN_OR_RETURN(const SqliteTransaction snapshot, SqliteTransaction::BeginRead(database));
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t version, CheckSchema(database));
  FsckReport report;
  std::error_code error;
  if (opened.copy && fs::file_size(folder.database(), error) == 0)
    CheckEmptyDatabase(folder, evidence, version, report);
  FULCRUM_RETURN_IF_ERROR(CheckPages(database, report));
  if (version == 0) {
    if (report.problems.empty()) report.problems.emplace_back("database: it has no tables; restore a backup");
    return report;
  }
  if (version < OldestReadableSchemaVersion()) {
    report.problems.push_back(absl::StrCat("schema: version ", version, ", and this program reads versions from ",
                                           OldestReadableSchemaVersion(),
                                           "; opening the campaign for writing, or rebuilding it, upgrades it"));
    return report;
  }
  FULCRUM_RETURN_IF_ERROR(CheckTriggers(database, report));
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  FULCRUM_ASSIGN_OR_RETURN(report.events, log.LastSequence());
  const auto state = ReplayAndCompare(database, version, log, report);
  const std::int64_t rounds = state.ok() ? state->rounds().count() : evidence.round;
  FULCRUM_RETURN_IF_ERROR(CheckEvidence(evidence, log, rounds, report));
  if (!state.ok()) {
    report.problems.push_back(absl::StrCat("log: ", state.status().message()));
    return report;
  }
  report.labels = state->totals().labels;
  report.items = static_cast<std::int64_t>(state->items().size());
  report.rounds = rounds;
  report.models = state->rounds().model_count();
  CheckFiles(folder, *state, report);
  CheckPools(folder, report);
  return report;
}

namespace {

/// Brings a database, which is a copy, up to date; afterwards it is one complete file.
absl::Status RebuildDatabase(const std::string& path) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(path));
  FULCRUM_RETURN_IF_ERROR(Migrate(database));
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  CampaignState state;
  FULCRUM_RETURN_IF_ERROR(ReplayLog(log, state));
  FULCRUM_ASSIGN_OR_RETURN(const LogPosition position, PositionOf(state, log));
  FULCRUM_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(database));
  FULCRUM_RETURN_IF_ERROR(checkpoint->Rewrite(state, position));
  return database.Checkpoint();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot rename '", from, "' to '", to, "': ", error.message()));
}

/// A database that is renamed to another's name must not find the other's write-ahead log there. The old log is moved
/// into the old database first; if that database is empty, the log is kept under another name until the end.
absl::Status ReplaceDatabase(const CampaignFolder& folder, const std::string& rebuilt) {
  const std::string log = folder.database() + "-wal";
  const std::string old_log = folder.database() + "-wal.before-rebuild";
  std::error_code error;
  const bool has_log = fs::exists(log, error) && fs::file_size(log, error) > 0;
  if (has_log && fs::file_size(folder.database(), error) == 0) {
    FULCRUM_RETURN_IF_ERROR(Rename(log, old_log));
  } else if (has_log) {
    FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase original, SqliteDatabase::Open(folder.database()));
    FULCRUM_RETURN_IF_ERROR(original.Checkpoint());
  }
  FULCRUM_RETURN_IF_ERROR(SyncFile(rebuilt));
  FULCRUM_RETURN_IF_ERROR(Rename(rebuilt, folder.database()));
  FULCRUM_RETURN_IF_ERROR(SyncFolder(folder.path()));
  for (const std::string& left : {log, folder.database() + "-shm", old_log}) fs::remove(left, error);
  return absl::OkStatus();
}

}  // namespace

absl::Status RebuildCampaign(const std::string& path) {
  const CampaignFolder folder(path);
  FULCRUM_RETURN_IF_ERROR(folder.Check());
  FULCRUM_ASSIGN_OR_RETURN(const FileLock lock, LockCampaign(folder));
  FULCRUM_ASSIGN_OR_RETURN(const DatabaseCopy copy, DatabaseCopy::Make(folder, folder.database() + ".rebuilt"));
  FULCRUM_RETURN_IF_ERROR(RebuildDatabase(copy.path()));
  return ReplaceDatabase(folder, copy.path());
}

}  // namespace fulcrum::storage
