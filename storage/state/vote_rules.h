// What an item's votes amount to: a label, a wish for more votes, or a dispute.
//
// A pure function. Stateless and thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "storage/state/campaign_records.h"
#include "storage/state/campaign_settings.h"

namespace fulcrum::storage {

enum class VoteOutcome { kUndecided, kDecided, kDisputed };

struct VoteVerdict {
  VoteOutcome outcome = VoteOutcome::kUndecided;
  std::string value = {};         ///< where decided
  std::int64_t votes_wanted = 0;  ///< where undecided: how many more
};

/// Withdrawn votes do not count. With `overlap` votes the first decides if it leads by `margin`; otherwise one more
/// annotator is asked, and again, until there are `most_votes`.
VoteVerdict JudgeVotes(std::span<const Vote> votes, const CampaignSettings& settings);

}  // namespace fulcrum::storage
