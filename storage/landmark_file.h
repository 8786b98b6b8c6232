// The landmarks that a round saw each class from, kept beside its scores: a campaign that is opened again goes on with
// them, and so comes to the batch that it would have come to.
//
// A small text file, "class,row" a line. Stateless; one file is handled by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "storage/campaign_folder.h"

namespace fulcrum::storage {

/// By class, or by a number below 0 for a group that is no class.
using LandmarksByClass = std::map<ClassIndex, RowList>;

/// What comes back is the name for CommitBatchRequest::files.
absl::StatusOr<std::string> WriteLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                              const LandmarksByClass& landmarks);

/// Of a committed round; nothing where it had none. DataLoss where the file is damaged: rows of a class must ascend,
/// and be of a pool of `pool_rows`.
absl::StatusOr<LandmarksByClass> ReadLandmarkFile(const CampaignFolder& folder, std::int64_t round,
                                                  std::size_t pool_rows);

}  // namespace fulcrum::storage
