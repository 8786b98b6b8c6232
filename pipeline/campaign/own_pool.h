// A campaign's own copy of its pool and of its validation set, made once, when the campaign is.
//
// From then on nobody reads the sources: they may change, move or go away. Stateless; one campaign is handled by one
// thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "pipeline/campaign/campaign_plan.h"
#include "stages/ingest/column_roles.h"
#include "storage/campaign_folder.h"

namespace fulcrum::pipeline {

/// What the plan says about the columns of its sources.
ingest::ColumnOptions ColumnsOf(const CampaignPlan& plan);

/// Imports the plan's sources, which must lie inside `root`, into the campaign's folder, on the disk when it is OK.
/// What is there already stays as it is; a campaign that was restored without its pool gets it back. InvalidArgument
/// for a source outside of `root`, DataLoss for one with a row that cannot be taken, whatever its share: rows without
/// ids are known by their numbers, which must not shift.
absl::Status ImportOwnPool(const CampaignPlan& plan, const std::string& root, const storage::CampaignFolder& folder);

}  // namespace fulcrum::pipeline
