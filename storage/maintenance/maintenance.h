// Checks a campaign from the disk up, and rebuilds what is derived from its log.
//
// Checking changes nothing in the folder of the campaign and reads one snapshot, also while another process writes to
// it; rebuilding needs exclusive access. Functions for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/campaign_folder.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/sqlite/sqlite.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

struct FsckReport {
  std::int64_t events = 0;
  std::int64_t labels = 0;
  std::int64_t items = 0;
  std::int64_t rounds = 0;
  std::int64_t models = 0;
  std::int64_t tables_through = 0;         ///< the last event that the derived tables include
  std::vector<std::string> problems = {};  ///< empty: all is well
  std::vector<std::string> notes = {};     ///< what is unusual, but no damage
};

/// Checks: the database's pages; the schema and the triggers that protect the log; every event, by its checksum and by
/// replaying it; whether other files know of events that the log does not have; the derived tables, against the replay;
/// the files of rounds and models; every pool. An error is something that prevents the check. Copies the database to
/// the folder for temporary files, unless another process writes to the campaign.
absl::StatusOr<FsckReport> CheckCampaign(const std::string& folder);

/// Upgrades the schema and writes the derived tables again from the log, in a copy that replaces the database at the
/// end: after an error the campaign is as it was. Unavailable if the campaign is open.
absl::Status RebuildCampaign(const std::string& folder);

// A copy of a campaign's database that may be opened and written to without touching the original.
//
// SQLite changes files even when it only reads them: it may create, recover or delete a write-ahead log. Tools that
// must not change a campaign work on a copy of both files. An empty database with a write-ahead log next to it is made
// readable in the copy, since the log may hold every page. A plain value for one thread.

class DatabaseCopy {
 public:
  /// Copies the database and its write-ahead log, if there is one, to `path`. The caller makes sure that no process
  /// writes to the campaign. The copy is removed with the object, except for what was renamed by then.
  static absl::StatusOr<DatabaseCopy> Make(const CampaignFolder& folder, const std::string& path);
  /// The same in a new folder for temporary files.
  static absl::StatusOr<DatabaseCopy> MakeTemporary(const CampaignFolder& folder);

  DatabaseCopy(DatabaseCopy&& other) noexcept;
  DatabaseCopy& operator=(DatabaseCopy&&) = delete;
  ~DatabaseCopy();

  const std::string& path() const { return path_; }

 private:
  explicit DatabaseCopy(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::string temporary_folder_;  ///< empty unless there is one to be removed
};

// Compares the derived tables, which are the checkpoint of a campaign, with its log.
//
// A function for one thread.

/// What differs between a checkpoint that was loaded and the state at its position, derived from the log: one line per
/// row, at most `most`.
std::vector<std::string> FindDifferences(Checkpoint& checkpoint, const CampaignState& state, std::size_t most = 10);

// A campaign in one file, and back.
//
// A backup is an SQLite database: a snapshot of campaign.db, taken while it is being written, and in further tables the
// files that the log names (models, scores and batches of rounds, appended rows) and the pool, split into pieces. A
// pool whose sources are kept elsewhere may be left out; then it is only listed by name, size and checksum. A backup
// appears complete or not at all, after it was read back and checked. Functions for one thread; neither needs the lock
// of the campaign.

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
/// Reads a file's pieces; DataLoss where they are not what the list says.
absl::Status CheckBackupFile(SqliteDatabase& backup, const BackupEntry& entry);
/// Writes a file out of the backup into the folder. InvalidArgument for a path that leads out of it.
absl::Status ExtractBackupFile(SqliteDatabase& backup, const BackupEntry& entry, const CampaignFolder& folder);

}  // namespace fulcrum::storage
