// Compares the derived tables, which are the checkpoint of a campaign, with its log.
//
// A function for one thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "storage/checkpoint/checkpoint.h"
#include "storage/state/campaign_state.h"

namespace fulcrum::storage {

/// What differs between a checkpoint that was loaded and the state at its position, derived from the log: one line per
/// row, at most `most`.
std::vector<std::string> FindDifferences(Checkpoint& checkpoint, const CampaignState& state, std::size_t most = 10);

}  // namespace fulcrum::storage
