// A campaign in one file, and back.
//
// A backup is an SQLite database: a copy of campaign.db as of one moment, taken while others go on writing, and beside
// its tables the files that the copied log names (models, scores and batches of rounds, appended rows) and the pool,
// cut into pieces. A pool whose sources are kept elsewhere may be left out: it is only listed then, by name, size and
// checksum. A backup appears whole or not at all, and was read back and checked before it does. Functions for one
// thread; neither needs the campaign's lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

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

/// Replaces `file` where it exists. DataLoss where the campaign or the copy is damaged.
absl::StatusOr<BackupReport> BackUpCampaign(const std::string& folder, const std::string& file,
                                            const BackupOptions& options = {});

/// Makes a campaign of a backup and checks it. AlreadyExists where the folder is there and not empty; nothing is left
/// where it fails.
absl::StatusOr<BackupReport> RestoreCampaign(const std::string& file, const std::string& folder);

}  // namespace fulcrum::storage
