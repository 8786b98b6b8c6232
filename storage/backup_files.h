// The files inside a backup: two tables, one that lists them and one that holds their pieces.
//
// Belongs to one connection, used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/campaign_folder.h"
#include "storage/sqlite_database.h"

namespace fulcrum::storage {

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
/// FailedPrecondition where the database is no backup.
absl::StatusOr<std::vector<BackupEntry>> ListBackup(SqliteDatabase& backup);
/// Reads a file's pieces; DataLoss where they are not what the list says.
absl::Status CheckBackupFile(SqliteDatabase& backup, const BackupEntry& entry);
/// Writes a file out of the backup into the folder. InvalidArgument for a path that leads out of it.
absl::Status ExtractBackupFile(SqliteDatabase& backup, const BackupEntry& entry, const CampaignFolder& folder);

}  // namespace fulcrum::storage
