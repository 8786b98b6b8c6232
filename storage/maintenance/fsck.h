// Checks a campaign from the disk up, and rebuilds what is derived from its log.
//
// Checking changes nothing in the folder of the campaign and reads one snapshot, also while another process writes to
// it; rebuilding needs exclusive access. Functions for one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

}  // namespace fulcrum::storage
