#include "storage/backup_files.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stages/core/atomic_file.h"
#include "stages/core/status_macros.h"
#include "storage/checksum.h"

namespace fulcrum::storage {
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
