// A campaign in one file, and back.
//
// A backup is an SQLite database: a snapshot of campaign.db, taken while it is being written, and in further tables the
// files that the log names (models, scores and batches of rounds, appended rows) and the pool, split into pieces. A
// pool whose sources are kept elsewhere may be left out; then it is only listed by name, size and checksum. A backup
// appears complete or not at all, after it was read back and checked. Functions for one thread; neither needs the lock
// of the campaign.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/campaign_folder.h"
#include "storage/sqlite/sqlite.h"

namespace fulcrum::storage {

struct BackupOptions {
  bool with_pool = true;  ///< what was imported when the campaign was made; appended rows are always in it
};

struct BackupReport {
  std::int64_t events = 0;  ///< in the log
  std::int64_t files = 0;   ///< included besides the database
  std::int64_t file_bytes = 0;
  std::vector<std::string> not_included = {};  ///< files of the pool that the backup only lists
};

/// Replaces `file` if it exists. DataLoss if the campaign or the copy is damaged.
absl::StatusOr<BackupReport> BackUpCampaign(const std::string& folder, const std::string& file,
                                            const BackupOptions& options = {});

/// Restores a campaign from a backup and checks it. AlreadyExists if the folder exists and is not empty; nothing is
/// left where it fails.
absl::StatusOr<BackupReport> RestoreCampaign(const std::string& file, const std::string& folder);

// The files inside a backup: two tables, one that lists them and one that holds their pieces.
//
// Belongs to one connection, used by one thread.

struct BackupEntry {
  std::string path = {};  ///< relative to the campaign's folder
  std::int64_t bytes = 0;
  std::string checksum = {};
  bool included = false;
};

absl::Status CreateBackupTables(SqliteDatabase& backup);
absl::Status DropBackupTables(SqliteDatabase& backup);

/// Lists a file of the campaign, and copies it into the backup where `include` says so.
absl::StatusOr<BackupEntry> AddToBackup(SqliteDatabase& backup, const CampaignFolder& folder, const std::string& path,
                                        bool include);
/// FailedPrecondition if the database is not a backup.
absl::StatusOr<std::vector<BackupEntry>> ListBackup(SqliteDatabase& backup);
/// Reads a file's pieces; DataLoss if they are not what the list says.
absl::Status CheckBackupFile(SqliteDatabase& backup, const BackupEntry& entry);
/// Writes a file out of the backup into the folder. InvalidArgument for a path that leads out of it.
absl::Status ExtractBackupFile(SqliteDatabase& backup, const BackupEntry& entry, const CampaignFolder& folder);

}  // namespace fulcrum::storage
