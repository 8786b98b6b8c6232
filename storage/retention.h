// Removes files of old rounds, if a campaign is told to keep only the newest ones.
//
// Scores and models of every round of a long campaign fill a disk. Labels, batches and the log are never removed. What
// was removed is written to rounds/removed.txt before the first file goes, so that fsck, backup and readers know that a
// file is not lost. Stateless; one campaign is handled by one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/campaign_folder.h"

namespace fulcrum::storage {

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
