#include "storage/backup.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"
#include "storage/backup_files.h"
#include "storage/campaign_folder.h"
#include "storage/fsck.h"
#include "storage/ledger.h"
#include "storage/schema.h"
#include "storage/sqlite_transaction.h"

namespace fulcrum::storage {
namespace {

namespace fs = std::filesystem;

void RemoveQuietly(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

absl::StatusOr<CampaignState> Replay(SqliteDatabase& database) {
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  return ReplayLog(log);
}

/// The files that the log names, in order and once.
std::vector<std::string> NamedFiles(const CampaignState& state) {
  std::vector<std::string> names;
  for (const Round& round : state.rounds()) {
    for (const absl::string_view name : absl::StrSplit(round.files, '\n', absl::SkipEmpty())) names.emplace_back(name);
  }
  for (const StoredModel& model : state.models()) names.push_back(model.file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// Rows that were appended have no source from which they could be made again.
bool IsAppended(const CampaignState& state, const std::string& file) {
  return std::any_of(state.appended().begin(), state.appended().end(),
                     [&](const AppendedRows& rows) { return absl::StartsWith(file, absl::StrCat(rows.folder, "/")); });
}

absl::StatusOr<std::vector<std::string>> PoolFiles(const CampaignFolder& folder) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder.pool(), error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_regular_file()) names.push_back(fs::relative(entry->path(), folder.path()).string());
  }
  if (error) return absl::DataLossError(absl::StrCat("cannot read '", folder.pool(), "': ", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

/// Copies the database, in a snapshot, and what its log names; the count of events is the snapshot's.
absl::StatusOr<BackupReport> WriteBackup(const CampaignFolder& folder, const std::string& file,
                                         const BackupOptions& options) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase source,
                           SqliteDatabase::Open(folder.database(), {.read_only = true, .check_integrity = false}));
  FULCRUM_RETURN_IF_ERROR(CheckSchema(source).status());
  FULCRUM_ASSIGN_OR_RETURN(const SqliteTransaction snapshot, SqliteTransaction::BeginRead(source));
  FULCRUM_ASSIGN_OR_RETURN(const CampaignState state, Replay(source));
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase backup, SqliteDatabase::Open(file, {.write_ahead_log = false}));
  FULCRUM_RETURN_IF_ERROR(source.CopyTo(backup));
  // The copy says of itself that it has a write-ahead log, as the original does.
  FULCRUM_RETURN_IF_ERROR(backup.Execute("PRAGMA journal_mode=DELETE"));
  FULCRUM_ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::BeginWrite(backup));
  FULCRUM_RETURN_IF_ERROR(CreateBackupTables(backup));
  BackupReport report{.events = state.last_sequence()};
  const auto add = [&](const std::string& name, bool include) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const BackupEntry entry, AddToBackup(backup, folder, name, include));
    report.files += include ? 1 : 0;
    report.file_bytes += include ? entry.bytes : 0;
    if (!include) report.not_included.push_back(name);
    return absl::OkStatus();
  };
  for (const std::string& name : NamedFiles(state)) FULCRUM_RETURN_IF_ERROR(add(name, true));
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, PoolFiles(folder));
  for (const std::string& name : pool) FULCRUM_RETURN_IF_ERROR(add(name, options.with_pool || IsAppended(state, name)));
  FULCRUM_RETURN_IF_ERROR(transaction.Commit());
  return report;
}

/// Reads a backup from the disk and holds it against what was to be in it.
absl::Status VerifyBackup(const std::string& file, const BackupReport& expected) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase backup,
                           SqliteDatabase::Open(file, {.read_only = true, .check_integrity = false}));
  FULCRUM_ASSIGN_OR_RETURN(const std::string finding, backup.QueryText("PRAGMA integrity_check(1)"));
  if (finding != "ok") return absl::DataLossError(absl::StrCat("the backup is damaged: ", finding, "; try again"));
  FULCRUM_ASSIGN_OR_RETURN(const CampaignState state, Replay(backup));
  if (state.last_sequence() != expected.events) {
    return absl::DataLossError(absl::StrCat("the backup holds ", state.last_sequence(), " events and the campaign ",
                                            expected.events, "; try again"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const auto entries, ListBackup(backup));
  for (const BackupEntry& entry : entries) {
    if (entry.included) FULCRUM_RETURN_IF_ERROR(CheckBackupFile(backup, entry));
  }
  return absl::OkStatus();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return absl::InvalidArgumentError(absl::StrCat("cannot put '", to, "' in its place: ", error.message()));
  return SyncFolder(fs::path(to).lexically_normal().parent_path().string());
}

absl::StatusOr<BackupReport> FillFolder(SqliteDatabase& backup, const CampaignFolder& folder) {
  FULCRUM_RETURN_IF_ERROR(folder.Create());
  FULCRUM_ASSIGN_OR_RETURN(const auto entries, ListBackup(backup));
  BackupReport report;
  for (const BackupEntry& entry : entries) {
    if (!entry.included) {
      report.not_included.push_back(entry.path);
      continue;
    }
    FULCRUM_RETURN_IF_ERROR(ExtractBackupFile(backup, entry, folder));
    ++report.files;
    report.file_bytes += entry.bytes;
  }
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase database,
                           SqliteDatabase::Open(folder.database(), {.write_ahead_log = false}));
  FULCRUM_RETURN_IF_ERROR(backup.CopyTo(database));
  FULCRUM_RETURN_IF_ERROR(DropBackupTables(database));
  FULCRUM_RETURN_IF_ERROR(Migrate(database));
  return report;
}

}  // namespace

absl::StatusOr<BackupReport> BackUpCampaign(const std::string& path, const std::string& file,
                                            const BackupOptions& options) {
  const CampaignFolder folder(path);
  FULCRUM_RETURN_IF_ERROR(folder.Check());
  std::error_code error;
  if (fs::is_directory(file, error)) {
    return absl::InvalidArgumentError(absl::StrCat("'", file, "' is a folder; a backup is one file, name one"));
  }
  const std::string partial = absl::StrCat(file, ".partial-", getpid());
  const absl::Cleanup remove_partial = [&] {
    for (const char* suffix : {"", "-journal", "-wal", "-shm"}) RemoveQuietly(partial + suffix);
  };
  FULCRUM_ASSIGN_OR_RETURN(BackupReport report, WriteBackup(folder, partial, options));
  FULCRUM_RETURN_IF_ERROR(VerifyBackup(partial, report));
  FULCRUM_RETURN_IF_ERROR(Rename(partial, file));
  return report;
}

absl::StatusOr<BackupReport> RestoreCampaign(const std::string& file, const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !(fs::is_directory(path, error) && fs::is_empty(path, error))) {
    return absl::AlreadyExistsError(absl::StrCat("'", path, "' exists already; restore into a folder of another name"));
  }
  const std::string plain = fs::path(path).lexically_normal().string();
  const std::string partial =
      absl::StrCat(plain.back() == '/' ? plain.substr(0, plain.size() - 1) : plain, ".partial-", getpid());
  const absl::Cleanup remove_partial = [&] { RemoveQuietly(partial); };
  FULCRUM_ASSIGN_OR_RETURN(SqliteDatabase backup, SqliteDatabase::Open(file, {.read_only = true}));
  FULCRUM_RETURN_IF_ERROR(CheckSchema(backup).status());
  FULCRUM_ASSIGN_OR_RETURN(BackupReport report, FillFolder(backup, CampaignFolder(partial)));
  FULCRUM_ASSIGN_OR_RETURN(const FsckReport check, CheckCampaign(partial));
  if (!check.problems.empty()) {
    return absl::DataLossError(absl::StrCat(
        "what '", file, "' holds is damaged, nothing was restored: ", absl::StrJoin(check.problems, "; ")));
  }
  report.events = check.events;
  FULCRUM_RETURN_IF_ERROR(Rename(partial, path));
  return report;
}

}  // namespace fulcrum::storage
