// A campaign's own copy of its pool and of its validation set, made once, when the campaign is.
//
// From then on nobody reads the sources: they may change, move or go away. Stateless; one campaign is handled by one
// thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/pool/upload_store.h"
#include "pipeline/round/pool_import.h"
#include "stages/ingest/columns/column_roles.h"
#include "stages/ingest/columns/row_ids.h"
#include "storage/campaign_folder.h"

namespace fulcrum::pipeline {

/// What the plan says about the columns of its sources.
ingest::ColumnOptions ColumnsOf(const CampaignPlan& plan);

/// InvalidArgument for the first row from `first` on whose id is longer than the log takes. Its number in the message
/// counts from `first`.
absl::Status CheckIdLengths(const ingest::RowIds& ids, std::size_t first);

/// Imports the plan's sources, which are uploads or lie inside the folder of pools, into the campaign's folder, on the
/// disk when it is OK. An existing pool stays as it is; a campaign that was restored without its pool gets it back.
/// InvalidArgument for a source outside of that folder, NotFound for an upload that does not exist, DataLoss for one
/// with a row that cannot be taken, whatever its share: rows without ids are known by their numbers, which must not
/// shift. Cancelled if `control` ends it.
absl::Status ImportOwnPool(const CampaignPlan& plan, const PoolPlaces& places, const storage::CampaignFolder& folder,
                           const ImportControl& control = {});

// A new campaign's folder: its own pool and an empty log, made under another name first.
//
// A process that is killed halfway leaves a folder with a name that no campaign can have, which
// RemoveUnfinishedCampaigns removes. One thread at a time for each folder.

/// Imports the plan's sources and begins the log; on the disk when it is OK. AlreadyExists if the folder exists. An
/// error leaves nothing behind.
absl::Status MakeCampaignFolder(const std::string& folder, const CampaignPlan& plan, const PoolPlaces& places,
                                const ImportControl& control);

/// Removes what a process that was killed while making a campaign left in the folder of campaigns.
void RemoveUnfinishedCampaigns(const std::string& campaigns_folder);

}  // namespace fulcrum::pipeline
