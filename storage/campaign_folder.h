// The files and folders of a campaign.
//
//   campaign.db     the log and what is derived from it (SQLite, with -wal and -shm next to it while open)
//   campaign.lock   held by the one process that writes
//   campaign.high-water   the last event that was committed, by which a log that lost its end is recognized
//   campaign.lost-events  one line for every time that the store was opened with such a log
//   pool/           imported pools: imported/, appended-00001/ and so on, and validation/, the set that accuracy is
//                   measured on
//   models/         one file per model
//   rounds/         the scores and the batch of each round as Parquet, and what rows of a stream are compared with
//   cluster/        what the daemon and the job of a round exchange; only while the job runs
//
// A plain value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/core/files.h"

namespace fulcrum::storage {

class CampaignFolder {
 public:
  explicit CampaignFolder(std::string path) : path_(std::move(path)) {}

  /// Creates the folder and those inside, durably; existing ones stay.
  absl::Status Create() const;
  /// NotFound, with what is missing, if the folder contains no campaign.
  absl::Status Check() const;

  const std::string& path() const { return path_; }
  std::string database() const { return path_ + "/campaign.db"; }
  std::string lock() const { return path_ + "/campaign.lock"; }
  std::string high_water() const { return path_ + "/campaign.high-water"; }
  std::string lost_events() const { return path_ + "/campaign.lost-events"; }
  std::string pool() const { return path_ + "/pool"; }
  std::string imported_pool() const { return pool() + "/imported"; }
  std::string validation_pool() const { return pool() + "/validation"; }
  std::string models() const { return path_ + "/models"; }
  std::string rounds() const { return path_ + "/rounds"; }
  std::string cluster() const { return path_ + "/cluster"; }
  /// A file named in the log, such as "rounds/000001-batch.parquet".
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// For the one process that writes to the campaign; Unavailable if another process, or another store of this one, does.
absl::StatusOr<FileLock> LockCampaign(const CampaignFolder& folder);

// Removes files of old rounds, if a campaign is told to keep only the newest ones.
//
// Scores and models of every round of a long campaign fill a disk. Labels, batches and the log are never removed. What
// was removed is written to rounds/removed.txt before the first file goes, so that fsck, backup and readers know that a
// file is not lost. Stateless; one campaign is handled by one thread.

/// Name of the file with what was removed.
inline constexpr char kRemovedFiles[] = "rounds/removed.txt";

/// Rounds whose files are kept, counted back from the newest one; 0: all.
struct Retention {
  std::int64_t scores = 0;
  std::int64_t models = 0;
  std::int64_t streams = 0;  ///< what rows of a stream were compared with
};

/// Removes the files of rounds before those that are kept. `newest` is a round that was committed.
absl::Status RemoveOldFiles(const CampaignFolder& folder, const Retention& retention, std::int64_t newest);

/// Whether a file that the log names was removed on purpose.
bool WasRemoved(const CampaignFolder& folder, absl::string_view name);

}  // namespace fulcrum::storage
