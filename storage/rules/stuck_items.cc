#include "storage/rules/stuck_items.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/rules/annotator_rules.h"
#include "storage/state/crowd.h"

namespace fulcrum::storage {

absl::btree_set<std::string> KnownAnnotators(const CampaignState& state) {
  absl::btree_set<std::string> known = state.items().annotators();
  state.leases().Visit([&](const Lease& lease) { known.insert(lease.annotator); });
  for (const auto& [name, reason] : state.paused()) known.erase(name);
  for (const auto& [name, terms] : state.settings().annotators) {
    if (terms.budget > 0 && state.activity().Of(name).cost >= terms.budget) known.erase(name);
  }
  return known;
}

namespace {

// A round may have a million open slots, and the store has others to serve.
constexpr std::int64_t kMostVisited = 10'000;
// If so many annotators, and all there are, have skipped an item, it does not wait for others.
constexpr std::size_t kEnoughWhoSkipped = 3;

std::int64_t VotesOf(const Item& item) {
  return std::count_if(item.votes.begin(), item.votes.end(), [](const Vote& vote) { return !vote.withdrawn; });
}

/// Votes that an item needs before it is decided because no other annotator is there. With adaptive overlap an item may
/// need one vote only, and the first annotator of a campaign is alone for a while: others may still join.
std::int64_t LeastVotes(const CampaignSettings& settings) {
  if (settings.confidence == 0) return settings.overlap;
  return std::max<std::int64_t>(settings.overlap, std::min<std::int64_t>(2, settings.most_votes));
}

/// No annotator has it, and none of these may be asked. False if there are none: an annotator has to come first.
bool IsStuck(const CampaignState& state, const Item& item, const absl::btree_set<std::string>& known) {
  if (item.status != ItemStatus::kOffered || ItemSet::IsLeased(item) || known.empty()) return false;
  return std::none_of(known.begin(), known.end(), [&](const std::string& who) { return state.MayAnswer(item, who); });
}

/// Votes that weigh differently decide as they are, unless two classes are equally probable.
absl::Status Dispute(Ledger& ledger, const Item& item, const std::string& why) {
  const CampaignSettings& settings = ledger.state().settings();
  const std::optional<Opinion> opinion =
      OpinionOf(item.votes, settings, ledger.state().crowd(), ledger.state().VoiceOn(item.id));
  if (settings.consensus == CampaignSettings::Consensus::kDawidSkene && opinion && !opinion->tied) {
    return ledger.Append({.body = VotesAccepted{item.id, absl::StrCat(VotesOf(item), " votes are accepted, ", why)}})
        .status();
  }
  return ledger.Append({.body = ItemDisputed{item.id, absl::StrCat(VotesOf(item), " votes give no decision, ", why)}})
      .status();
}

constexpr char kNoAnnotatorLeft[] = "and every annotator has answered or skipped it";

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
  const bool quiet = ledger.Now() - state.last_labeling() >= state.settings().dispute_time;
  const std::int64_t least_votes = LeastVotes(state.settings());
  SettleStuckAnswer answer;
  const std::vector<const Item*> open = OpenItems(state);
  const bool any = std::any_of(open.begin(), open.end(), [&, known = KnownAnnotators(state)](const Item* item) {
    return VotesOf(*item) >= least_votes && IsStuck(state, *item, known);
  });
  // Votes that tie under an old estimate may decide under what is known by now; that may also pause annotators.
  if (any) FULCRUM_RETURN_IF_ERROR(EstimateAnnotators(ledger, {}).status());
  const absl::btree_set<std::string> known = KnownAnnotators(state);
  for (const Item* const item : OpenItems(state)) {
    if (ItemSet::IsLeased(*item)) continue;
    const bool stuck = IsStuck(state, *item, known);
    const std::int64_t votes = VotesOf(*item);
    if (stuck && votes >= least_votes) {
      FULCRUM_RETURN_IF_ERROR(Dispute(ledger, *item, kNoAnnotatorLeft));
      ++answer.disputed;
    } else if (quiet && votes > 0) {
      FULCRUM_RETURN_IF_ERROR(Dispute(ledger, *item, "and no other annotator came in time"));
      ++answer.disputed;
    } else if (stuck && votes == 0 && (quiet || known.size() >= kEnoughWhoSkipped)) {
      FULCRUM_RETURN_IF_ERROR(ledger.Append({.body = ItemSetAside{item->id, "every annotator skipped it"}}).status());
      ++answer.set_aside;
    }
  }
  return answer;
}

namespace {

/// Why the budget of an annotator keeps it from the open items; empty if it does not.
std::string OwnBudgetReason(const CampaignState& state, const std::string& annotator,
                            const std::vector<const Item*>& open) {
  const auto terms = state.settings().annotators.find(annotator);
  if (terms == state.settings().annotators.end() || terms->second.budget <= 0) return "";
  const double left = state.LeftFor(annotator);
  bool any = false;
  for (const Item* const item : open) {
    if (!state.MayAnswer(*item, annotator)) continue;
    if (state.CostOf(*item, annotator) <= left) return "";
    any = true;
  }
  if (!any) return "";
  return absl::StrCat("the budget of annotator '", annotator, "' pays for no other task: ", left, " of ",
                      terms->second.budget, " is left; an administrator can raise it");
}

constexpr char kAtTheEnd[] = "as they are, at the end of the campaign";

/// Whether the votes of an item that is not decided could decide it as they are.
bool IsDecidable(const CampaignState& state, const Item& item) {
  if (item.status != ItemStatus::kOffered && item.status != ItemStatus::kInPool) return false;
  const std::optional<Opinion> opinion = OpinionOf(item.votes, state.settings(), state.crowd(), state.VoiceOn(item.id));
  return opinion && !opinion->tied;
}

absl::Status Accept(Ledger& ledger, const Item& item) {
  return ledger.Append({.body = VotesAccepted{item.id, absl::StrCat(VotesOf(item), " votes are accepted ", kAtTheEnd)}})
      .status();
}

}  // namespace

absl::StatusOr<std::int64_t> AcceptVotes(Ledger& ledger, const AcceptVotesRequest& /*request*/) {
  const CampaignState& state = ledger.state();
  if (state.settings().consensus != CampaignSettings::Consensus::kDawidSkene) return 0;
  // By what is known of the annotators by now, which may also decide some of them.
  FULCRUM_RETURN_IF_ERROR(EstimateAnnotators(ledger, {}).status());
  std::vector<Item> items = state.items().VotedInPool();
  state.items().VisitStatus(ItemStatus::kOffered, "", [&](const Item& item) {
    items.push_back(item);
    return true;
  });
  std::int64_t accepted = 0;
  for (const Item& item : items) {
    if (!IsDecidable(state, item)) continue;
    FULCRUM_RETURN_IF_ERROR(Accept(ledger, item));
    ++accepted;
  }
  return accepted;
}

absl::Status AcceptIfOver(Ledger& ledger, const std::string& id) {
  const CampaignState& state = ledger.state();
  const bool over =
      state.life() == Life::kDone && state.settings().consensus == CampaignSettings::Consensus::kDawidSkene;
  const Item* const item = over ? state.items().Find(id) : nullptr;
  return item != nullptr && IsDecidable(state, *item) ? Accept(ledger, Item(*item)) : absl::OkStatus();
}

absl::StatusOr<WaitingSummary> DescribeWaiting(Ledger& ledger, const WaitingRequest& request) {
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
  const std::vector<const Item*> open = OpenItems(state);
  summary.own_budget = OwnBudgetReason(state, request.annotator, open);
  for (const Item* const item : open) {
    if (!IsStuck(state, *item, known)) continue;
    if (summary.stuck_items++ == 0) {
      summary.stuck_item = item->id;
      summary.stuck_votes = VotesOf(*item);
    }
    summary.open_slots -= std::count_if(item->slots.begin(), item->slots.end(),
                                        [](const Slot& slot) { return slot.status == SlotStatus::kOpen; });
  }
  if (summary.stuck_items > 0) summary.dispute_at = state.last_labeling() + state.settings().dispute_time;
  if (state.rounds().open() != nullptr) {
    summary.advance_at = JudgeRound(state.Policy(), state.LastProgress(), ledger.Now()).look_again;
  }
  return summary;
}

}  // namespace fulcrum::storage
