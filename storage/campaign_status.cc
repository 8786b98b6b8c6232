#include "storage/campaign_status.h"

namespace fulcrum::storage {

CampaignStatus StatusOf(const CampaignState& state) {
  CampaignStatus status = {.last_sequence = state.last_sequence(),
                           .last_time = state.last_time(),
                           .life = state.life(),
                           .life_reason = state.life_reason(),
                           .totals = state.totals(),
                           .live_leases = state.leases().size(),
                           .open_slots = state.open_slots(),
                           .touched_items = state.items().size(),
                           .next_expiry = state.NextExpiry()};
  if (!state.rounds().empty()) {
    const Round& round = state.rounds().back();
    status.round = round.number;
    status.round_open = round.open;
    status.round_items = round.items;
    status.round_labeled = round.labeled;
    status.round_settled = round.settled();
    status.round_due = round.open && JudgeRound(state.settings().policy, round.progress(), state.last_time()).advance;
  }
  return status;
}

}  // namespace fulcrum::storage
