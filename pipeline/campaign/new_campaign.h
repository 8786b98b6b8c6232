// A new campaign's folder: its own pool and an empty log, made under another name first.
//
// Whoever is killed halfway leaves a folder that no campaign can have, and RemoveUnfinishedCampaigns takes it away. One
// thread at a time for each folder.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "pipeline/campaign/campaign_plan.h"

namespace fulcrum::pipeline {

/// Imports the plan's sources, which must lie inside `root`, and begins the log; on the disk when it is OK.
/// AlreadyExists where the folder is there. An error leaves nothing behind.
absl::Status MakeCampaignFolder(const std::string& folder, const CampaignPlan& plan, const std::string& root);

/// Removes what was left in a folder of campaigns by somebody who was killed while making one.
void RemoveUnfinishedCampaigns(const std::string& campaigns_folder);

}  // namespace fulcrum::pipeline
