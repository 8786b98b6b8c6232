// What a batch holds besides new items: items that have votes already.
//
// No vote is lost: an item whose round ended before its votes decided it is in the next batch. And a label in doubt is
// asked about again if another vote on it is expected to say more than the first vote on a new item. Pure functions of
// the state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "storage/state/campaign_state.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {

struct BatchedItem {
  std::string item = {};
  double cost = 0;  ///< of one label
};

/// Items that have votes of earlier rounds, which do not decide them, in the order in which they were batched: the next
/// batch begins with them. Those that a stream brought are not among them.
std::vector<BatchedItem> VotedItems(const CampaignState& state);

/// Items to be asked about again instead of as many new ones, at most `most`, the most informative vote first: labeled
/// by votes, not sure enough by what is known of the annotators and what the classifier says now, with fewer votes than
/// they may have, and with somebody to ask. The measure is the expected reduction of doubt (consensus.h) by a vote of
/// the usual accuracy; it must be above the mean of that for the new items, of which the classifier speaks too. Only
/// with adaptive overlap.
std::vector<BatchedItem> DoubtfulItems(const CampaignState& state, const Voices& voices,
                                       const std::vector<std::string>& new_items, std::size_t most);

}  // namespace fulcrum::storage
