// A campaign's figures after a commit, for whoever watches: small, and cheap to take. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "storage/campaign_state.h"

namespace fulcrum::storage {

struct CampaignStatus {
  std::int64_t last_sequence = 0;
  Time last_time = {};
  std::string life = {};
  std::string life_reason = {};
  Totals totals = {};
  std::size_t live_leases = 0;
  std::size_t open_slots = 0;
  std::size_t touched_items = 0;  ///< ever batched or labeled
  std::int64_t round = 0;         ///< the last one; 0 before the first
  bool round_open = false;
  std::int64_t round_items = 0;
  std::int64_t round_labeled = 0;
  std::int64_t round_settled = 0;
  bool round_due = false;                ///< it is open, and AdvanceRound would have closed it at last_time
  std::optional<Time> next_expiry = {};  ///< when the next lease ends by itself
};

CampaignStatus StatusOf(const CampaignState& state);

}  // namespace fulcrum::storage
