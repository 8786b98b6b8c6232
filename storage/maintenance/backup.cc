#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "stages/core/files.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_folder.h"
#include "storage/log/event_log.h"
#include "storage/maintenance/maintenance.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/ledger.h"

namespace fulcrum::storage {
namespace {

namespace fs = std::filesystem;

void RemoveQuietly(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

absl::StatusOr<CampaignState> Replay(SqliteDatabase& database) {
  FULCRUM_ASSIGN_OR_RETURN(EventLog log, EventLog::Open(database));
  CampaignState state;
  FULCRUM_RETURN_IF_ERROR(ReplayLog(log, state));
  return state;
}

/// The files that the log names, in order and once.
std::vector<std::string> NamedFiles(const CampaignState& state) {
  std::vector<std::string> names;
  state.rounds().Visit([&](const Round& round) {
    for (const absl::string_view name : absl::StrSplit(round.files, '\n', absl::SkipEmpty())) names.emplace_back(name);
  });
  state.rounds().VisitModels([&](const StoredModel& model) { names.push_back(model.file); });
  if (const auto& task = state.model_task()) {
    for (const std::string& file : {task->file, task->features.file, task->before.file}) {
      if (!file.empty()) names.push_back(file);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// Appended rows have no source from which they could be imported again.
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
  // The header of the copy says that it has a write-ahead log, as the original has.
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
  for (const std::string& name : NamedFiles(state)) {
    if (!fs::exists(folder.File(name)) && WasRemoved(folder, name)) continue;
    FULCRUM_RETURN_IF_ERROR(add(name, true));
  }
  if (fs::exists(folder.File(kRemovedFiles))) FULCRUM_RETURN_IF_ERROR(add(kRemovedFiles, true));
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, PoolFiles(folder));
  for (const std::string& name : pool) FULCRUM_RETURN_IF_ERROR(add(name, options.with_pool || IsAppended(state, name)));
  FULCRUM_RETURN_IF_ERROR(transaction.Commit());
  return report;
}

/// Reads a backup from disk and compares it with what was written.
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

absl::Status RenameDurably(const std::string& from, const std::string& to) {
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
  FULCRUM_RETURN_IF_ERROR(RenameDurably(partial, file));
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
  FULCRUM_RETURN_IF_ERROR(RenameDurably(partial, path));
  return report;
}

namespace {

// Far below SQLite's limit for one value, and small in memory.
constexpr std::size_t kPieceBytes = 8 << 20;

absl::Status CheckPath(const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  bool safe = parts.size() >= 2 && (parts[0] == "models" || parts[0] == "rounds" || parts[0] == "pool");
  for (const std::string& part : parts) safe = safe && !part.empty() && part != "." && part != "..";
  if (safe) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the backup holds a file '", path, "', which has no place in a campaign; nothing was restored"));
}

/// Calls `use` with the pieces of a file in order, and checks their sum.
absl::Status ReadPieces(SqliteDatabase& backup, const BackupEntry& entry,
                        const std::function<absl::Status(std::string_view)>& use) {
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement pieces,
                           backup.Prepare("SELECT bytes FROM backup_piece WHERE path=?1 ORDER BY piece"));
  FULCRUM_RETURN_IF_ERROR(pieces.Bind(1, std::string_view(entry.path)));
  Checksum checksum;
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, pieces.Step());
    if (!has_row) break;
    const std::span<const std::byte> bytes = pieces.ColumnBytes(0);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    checksum.Add({text.data(), text.size()});
    FULCRUM_RETURN_IF_ERROR(use(text));
  }
  if (checksum.ToText() == entry.checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the file '", entry.path, "' in backup '", backup.path(),
                                          "' is damaged: its checksum is ", checksum.ToText(), ", not ",
                                          entry.checksum));
}

}  // namespace

absl::Status CreateBackupTables(SqliteDatabase& backup) {
  return backup.Execute(
      "CREATE TABLE backup_list(path TEXT PRIMARY KEY, bytes INTEGER NOT NULL, checksum TEXT NOT NULL,"
      " included INTEGER NOT NULL);"
      "CREATE TABLE backup_piece(path TEXT NOT NULL, piece INTEGER NOT NULL, bytes BLOB NOT NULL,"
      " PRIMARY KEY(path, piece));");
}

absl::Status DropBackupTables(SqliteDatabase& backup) {
  return backup.Execute("DROP TABLE backup_piece; DROP TABLE backup_list; VACUUM;");
}

absl::StatusOr<BackupEntry> AddToBackup(SqliteDatabase& backup, const CampaignFolder& folder, const std::string& path,
                                        bool include) {
  std::ifstream file(folder.File(path), std::ios::binary);
  if (!file) {
    return absl::DataLossError(absl::StrCat("'", folder.File(path), "' is missing; fulcrum fsck tells what else is"));
  }
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement insert,
                           backup.Prepare("INSERT INTO backup_piece(path, piece, bytes) VALUES (?1, ?2, ?3)"));
  FULCRUM_RETURN_IF_ERROR(insert.Bind(1, std::string_view(path)));
  Checksum checksum;
  BackupEntry entry{.path = path, .included = include};
  std::vector<char> piece(kPieceBytes);
  for (std::int64_t number = 0; file.read(piece.data(), kPieceBytes) || file.gcount() > 0; ++number) {
    const auto size = static_cast<std::size_t>(file.gcount());
    checksum.Add({piece.data(), size});
    entry.bytes += static_cast<std::int64_t>(size);
    if (!include) continue;
    FULCRUM_RETURN_IF_ERROR(insert.Bind(2, number));
    FULCRUM_RETURN_IF_ERROR(insert.Bind(3, std::as_bytes(std::span(piece.data(), size))));
    FULCRUM_RETURN_IF_ERROR(insert.Run());
  }
  entry.checksum = checksum.ToText();
  FULCRUM_ASSIGN_OR_RETURN(SqliteStatement list, backup.Prepare("INSERT INTO backup_list VALUES (?1, ?2, ?3, ?4)"));
  FULCRUM_RETURN_IF_ERROR(list.Bind(1, std::string_view(path)));
  FULCRUM_RETURN_IF_ERROR(list.Bind(2, entry.bytes));
  FULCRUM_RETURN_IF_ERROR(list.Bind(3, std::string_view(entry.checksum)));
  FULCRUM_RETURN_IF_ERROR(list.Bind(4, std::int64_t{include ? 1 : 0}));
  FULCRUM_RETURN_IF_ERROR(list.Run());
  return entry;
}

absl::StatusOr<std::vector<BackupEntry>> ListBackup(SqliteDatabase& backup) {
  auto list = backup.Prepare("SELECT path, bytes, checksum, included FROM backup_list ORDER BY path");
  if (!list.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", backup.path(), "' was not made by fulcrum backup: it has no list of files"));
  }
  std::vector<BackupEntry> entries;
  for (;;) {
    FULCRUM_ASSIGN_OR_RETURN(const bool has_row, list->Step());
    if (!has_row) return entries;
    entries.push_back({std::string(list->ColumnText(0)), list->ColumnInt64(1), std::string(list->ColumnText(2)),
                       list->ColumnInt64(3) != 0});
  }
}

absl::Status CheckBackupFile(SqliteDatabase& backup, const BackupEntry& entry) {
  return ReadPieces(backup, entry, [](std::string_view) { return absl::OkStatus(); });
}

absl::Status ExtractBackupFile(SqliteDatabase& backup, const BackupEntry& entry, const CampaignFolder& folder) {
  FULCRUM_RETURN_IF_ERROR(CheckPath(entry.path));
  const std::filesystem::path path(folder.File(entry.path));
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  FULCRUM_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path.string()));
  FULCRUM_RETURN_IF_ERROR(ReadPieces(backup, entry, [&](std::string_view bytes) { return file.Write(bytes); }));
  return file.Commit();
}

}  // namespace fulcrum::storage
