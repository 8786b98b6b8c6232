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

}  // namespace fulcrum::storage
