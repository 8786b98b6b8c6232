#include "storage/state/stuck_items.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"

namespace fulcrum::storage {
namespace {

// A round may have a million open slots, and the store has others to serve.
constexpr std::int64_t kMostVisited = 10'000;

absl::btree_set<std::string> KnownAnnotators(const CampaignState& state) {
  absl::btree_set<std::string> known = state.items().annotators();
  state.leases().Visit([&](const Lease& lease) { known.insert(lease.annotator); });
  return known;
}

std::int64_t VotesOf(const Item& item) {
  return std::count_if(item.votes.begin(), item.votes.end(), [](const Vote& vote) { return !vote.withdrawn; });
}

/// Nobody has it, and none of these annotators may be asked.
bool IsStuck(const CampaignState& state, const Item& item, const absl::btree_set<std::string>& known) {
  if (item.status != ItemStatus::kOffered || ItemSet::IsLeased(item)) return false;
  return std::none_of(known.begin(), known.end(), [&](const std::string& who) { return state.MayAnswer(item, who); });
}

absl::Status Dispute(Ledger& ledger, const Item& item, const std::string& why) {
  return ledger.Append({.body = ItemDisputed{item.id, absl::StrCat(VotesOf(item), " votes give no decision, ", why)}})
      .status();
}

constexpr char kNobodyLeft[] = "and every annotator has answered or skipped it";

/// Items with open slots, each once, in the order in which they are offered.
std::vector<const Item*> OpenItems(const CampaignState& state) {
  std::vector<const Item*> items;
  absl::btree_set<const Item*> seen;
  std::int64_t visited = 0;
  state.items().VisitOpenSlots([&](const Item& item, const Slot&) {
    if (seen.insert(&item).second) items.push_back(&item);
    return ++visited < kMostVisited;
  });
  return items;
}

}  // namespace

absl::StatusOr<SettleStuckAnswer> SettleStuckItems(Ledger& ledger, const SettleStuckRequest& /*request*/) {
  const CampaignState& state = ledger.state();
  const absl::btree_set<std::string> known = KnownAnnotators(state);
  const bool quiet = ledger.Now() - state.last_time() >= state.settings().dispute_time;
  SettleStuckAnswer answer;
  for (const Item* const item : OpenItems(state)) {
    if (ItemSet::IsLeased(*item)) continue;
    const bool stuck = IsStuck(state, *item, known);
    const std::int64_t votes = VotesOf(*item);
    if (stuck && votes >= state.settings().overlap) {
      FULCRUM_RETURN_IF_ERROR(Dispute(ledger, *item, kNobodyLeft));
      ++answer.disputed;
    } else if (quiet && votes > 0) {
      FULCRUM_RETURN_IF_ERROR(Dispute(ledger, *item, "and no other annotator came in time"));
      ++answer.disputed;
    } else if (quiet && stuck && !known.empty()) {
      FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = ItemSetAside{item->id, "every annotator skipped it"}}).status());
      ++answer.set_aside;
    }
  }
  return answer;
}

absl::StatusOr<WaitingSummary> DescribeWaiting(Ledger& ledger, const WaitingRequest& /*request*/) {
  const CampaignState& state = ledger.state();
  WaitingSummary summary;
  std::map<std::string, WaitingSummary::Holder> holders;
  state.leases().Visit([&](const Lease& lease) {
    WaitingSummary::Holder& holder = holders[lease.annotator];
    const bool first = holder.leases++ == 0;
    holder.annotator = lease.annotator;
    holder.first_expiry = first ? lease.expires_at : std::min(holder.first_expiry, lease.expires_at);
  });
  for (auto& [name, holder] : holders) summary.holders.push_back(std::move(holder));
  std::stable_sort(summary.holders.begin(), summary.holders.end(),
                   [](const auto& a, const auto& b) { return a.first_expiry < b.first_expiry; });
  const absl::btree_set<std::string> known = KnownAnnotators(state);
  summary.open_slots = static_cast<std::int64_t>(state.items().open_slots());
  for (const Item* const item : OpenItems(state)) {
    if (known.empty() || !IsStuck(state, *item, known)) continue;
    if (summary.stuck_items++ == 0) {
      summary.stuck_item = item->id;
      summary.stuck_votes = VotesOf(*item);
    }
    summary.open_slots -= std::count_if(item->slots.begin(), item->slots.end(),
                                        [](const Slot& slot) { return slot.status == SlotStatus::kOpen; });
  }
  if (summary.stuck_items > 0) summary.dispute_at = state.last_time() + state.settings().dispute_time;
  if (const Round* const round = state.rounds().open()) {
    summary.advance_at = JudgeRound(state.settings().policy, round->progress(), ledger.Now()).look_again;
  }
  return summary;
}

}  // namespace fulcrum::storage
