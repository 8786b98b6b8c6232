#include "storage/rules/lease_rules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"
#include "storage/rules/model_rules.h"

namespace fulcrum::storage {
namespace {

constexpr std::int64_t kMostLeasesAtOnce = 1000;
constexpr std::size_t kMostGoldLooks = 1000;
// Open slots among which an annotator gets those that suit it, and how much the last of them count less than the first.
constexpr std::size_t kSuitabilityWindow = 50;
constexpr double kRankWeight = 0.2;

GrantedLease FromGrant(std::int64_t lease, const LeaseGranted& granted) {
  return {.lease = lease,
          .epoch = granted.epoch,
          .item = granted.item,
          .slot = granted.slot,
          .round = granted.round,
          .expires_at = granted.expires_at};
}

absl::StatusOr<AcquireAnswer> RepeatAcquire(Ledger& ledger, const Event& first) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<Event> events, EventsOfRequest(ledger, first));
  AcquireAnswer answer{.repeated = true};
  for (const Event& event : events) {
    const auto* const granted = std::get_if<LeaseGranted>(&event.body);
    if (granted != nullptr) answer.leases.push_back(FromGrant(event.sequence, *granted));
  }
  return answer;
}

/// What the budgets still allow, with live leases counted as answered.
struct Allowance {
  std::int64_t labels = std::numeric_limits<std::int64_t>::max();
  double cost = std::numeric_limits<double>::infinity();
};

absl::StatusOr<Allowance> ComputeAllowance(const CampaignState& state, const std::string& annotator) {
  const CampaignSettings& settings = state.settings();
  Allowance allowance;
  if (settings.label_budget > 0) {
    if (state.totals().labels >= settings.label_budget) {
      return absl::ResourceExhaustedError(absl::StrCat("the label budget is spent: ", state.totals().labels, " of ",
                                                       settings.label_budget, " labels; raise it to go on"));
    }
    allowance.labels = settings.label_budget - state.totals().labels - static_cast<std::int64_t>(state.leases().size());
  }
  if (settings.cost_budget > 0) {
    if (state.totals().cost >= settings.cost_budget) {
      return absl::ResourceExhaustedError(absl::StrCat("the cost budget is spent: ", state.totals().cost, " of ",
                                                       settings.cost_budget, "; raise it to go on"));
    }
    allowance.cost = settings.cost_budget - state.totals().cost - state.leases().cost();
  }
  const auto terms = settings.annotators.find(annotator);
  if (terms != settings.annotators.end() && terms->second.budget > 0) {
    const double spent = state.activity().Of(annotator).cost;
    if (spent >= terms->second.budget) {
      return absl::ResourceExhaustedError(absl::StrCat("the budget of annotator '", annotator, "' is spent: ", spent,
                                                       " of ", terms->second.budget, "; raise it to go on"));
    }
    allowance.cost = std::min(allowance.cost, state.LeftFor(annotator));
  }
  return allowance;
}

/// An open slot that the annotator may have.
struct OpenSlot {
  const Item* item = nullptr;
  const Slot* slot = nullptr;
  double score = 1;
};

/// At most `most` of them, the best first: by rank, or among the first that are offered by how they suit the annotator.
/// Slots that were passed over as "not now" come last as ever.
std::vector<OpenSlot> OfferedSlots(const CampaignState& state, const AcquireRequest& request, std::int64_t most,
                                   double affordable) {
  if (most <= 0) return {};  // all that the budgets allow is leased
  const Suitability suitability(state, request.annotator);
  const auto wanted = static_cast<std::size_t>(most);
  const std::size_t window = suitability.matters() ? std::max(wanted, kSuitabilityWindow) : wanted;
  std::vector<OpenSlot> slots;
  absl::flat_hash_set<const Item*> chosen;
  state.items().VisitOpenSlots([&](const Item& item, const Slot& slot) {
    if (slots.size() >= window) return false;
    const bool later = slots.size() >= wanted && slot.passes > slots.back().slot->passes;
    if (later) return false;
    // An annotator gets at most one slot of an item.
    const double cost = state.CostOf(item, request.annotator);
    const bool wrong = chosen.contains(&item) || cost > affordable;
    if (wrong || !state.MayAnswer(item, request.annotator)) return true;
    chosen.insert(&item);
    // In this order they are all taken; what does not fit any more makes room for what comes later.
    if (!suitability.matters()) affordable -= cost;
    const double rank_share = static_cast<double>(slots.size()) / static_cast<double>(window);
    const double suits = suitability.matters() ? suitability.Of(item) * (1 - kRankWeight * rank_share) : 1;
    slots.push_back({&item, &slot, suits});
    return true;
  });
  if (suitability.matters()) {
    std::stable_sort(slots.begin(), slots.end(), [](const OpenSlot& a, const OpenSlot& b) {
      return std::pair(a.slot->passes, -a.score) < std::pair(b.slot->passes, -b.score);
    });
  }
  return slots;
}

std::vector<LeaseGranted> ChooseSlots(const CampaignState& state, const AcquireRequest& request, Allowance allowance) {
  std::vector<LeaseGranted> grants;
  const std::int64_t most = std::min(request.most, allowance.labels);
  std::size_t bytes = 0;
  for (const OpenSlot& open : OfferedSlots(state, request, most, allowance.cost)) {
    if (static_cast<std::int64_t>(grants.size()) >= most) break;
    const double cost = state.CostOf(*open.item, request.annotator);
    if (cost > allowance.cost) continue;
    if (request.most_bytes > 0) bytes += request.bytes_of(open.item->id);
    // The next ones would be worse, and might not fit either.
    if (!grants.empty() && request.most_bytes > 0 && bytes > request.most_bytes) break;
    allowance.cost -= cost;
    grants.push_back(
        {.item = open.item->id, .slot = open.slot->number, .epoch = open.slot->epoch + 1, .round = open.slot->round});
  }
  return grants;
}

/// An item with a known answer that the annotator may be asked about; null if there is none. `draw` decides which.
const Item* FindGold(const CampaignState& state, const std::string& annotator, std::uint64_t draw) {
  const std::vector<std::string>& gold = state.gold();
  // A long list whose beginning the annotator has answered is not searched to its end for every task.
  const std::size_t looks = std::min<std::size_t>(gold.size(), kMostGoldLooks);
  for (std::size_t i = 0; i < looks; ++i) {
    const Item* const item = state.items().Find(gold[(draw + i) % gold.size()]);
    if (item != nullptr && !item->imported.empty() && state.MayAnswer(*item, annotator)) return item;
  }
  return nullptr;
}

/// Replaces some of the tasks by ones with known answers. What they cost and take is no more than what they replace, so
/// budgets and the size of the answer are kept.
void MixInGold(const CampaignState& state, const AcquireRequest& request, std::vector<LeaseGranted>& grants) {
  const double rate = state.settings().gold_rate;
  if (rate <= 0 || state.gold().empty()) return;
  absl::flat_hash_set<const Item*> chosen;
  for (std::size_t i = 0; i < grants.size(); ++i) {
    // Not predictable for a worker, and the same whenever the request is decided at this point of the log.
    Random random(static_cast<std::uint64_t>(Fingerprint(
        {"gold", request.annotator, request.request_id, absl::StrCat(state.last_sequence()), absl::StrCat(i)})));
    if (random.Uniform() >= rate) continue;
    const Item* const gold = FindGold(state, request.annotator, random.Next());
    const Item* const replaced = state.items().Find(grants[i].item);
    if (gold == nullptr || gold->cost > replaced->cost || !chosen.insert(gold).second) continue;
    const bool larger = request.most_bytes > 0 && request.bytes_of(gold->id) > request.bytes_of(replaced->id);
    if (larger && grants.size() > 1) continue;
    grants[i] = {.item = gold->id, .slot = gold->next_slot, .epoch = 1, .round = grants[i].round};
  }
}

std::int64_t FingerprintOf(absl::string_view kind, const LeaseRequest& request) {
  return Fingerprint({kind, absl::StrCat(request.lease), absl::StrCat(request.epoch)});
}

Event EventOf(const LeaseRequest& request, std::int64_t fingerprint, EventBody body) {
  return {.annotator = request.annotator,
          .request_id = request.request_id,
          .fingerprint = fingerprint,
          .body = std::move(body)};
}

}  // namespace

absl::StatusOr<AcquireAnswer> AcquireTasks(Ledger& ledger, const AcquireRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("annotator", request.annotator));
  if (request.most < 1 || request.most > kMostLeasesAtOnce) {
    return absl::InvalidArgumentError(
        absl::StrCat("between 1 and ", kMostLeasesAtOnce, " tasks can be asked for at once, not ", request.most));
  }
  const std::int64_t fingerprint = Fingerprint({"acquire", absl::StrCat(request.most)});
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeated(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) return RepeatAcquire(ledger, *repeated);
  if (const auto paused = ledger.state().paused().find(request.annotator); paused != ledger.state().paused().end()) {
    return absl::PermissionDeniedError(absl::StrCat("annotator '", request.annotator, "' is paused: ", paused->second,
                                                    "; an administrator can resume it"));
  }
  FULCRUM_ASSIGN_OR_RETURN(const Allowance allowance, ComputeAllowance(ledger.state(), request.annotator));
  AcquireAnswer answer;
  const Time expires_at = ledger.Now() + ledger.state().settings().lease_time;
  std::vector<LeaseGranted> grants = ChooseSlots(ledger.state(), request, allowance);
  MixInGold(ledger.state(), request, grants);
  for (LeaseGranted& grant : grants) {
    grant.expires_at = expires_at;
    FULCRUM_ASSIGN_OR_RETURN(const std::int64_t lease, ledger.Append({.annotator = request.annotator,
                                                                      .request_id = request.request_id,
                                                                      .fingerprint = fingerprint,
                                                                      .body = grant}));
    answer.leases.push_back(FromGrant(lease, grant));
  }
  return answer;
}

absl::StatusOr<std::vector<GrantedLease>> FindSessionLeases(Ledger& ledger, const SessionRequest& request) {
  std::vector<Lease> own;
  ledger.state().leases().Visit([&](const Lease& lease) {
    if (lease.annotator == request.annotator) own.push_back(lease);
  });
  std::vector<GrantedLease> leases;
  for (const Lease& lease : own) {
    FULCRUM_ASSIGN_OR_RETURN(const Event event, ledger.log().Find(lease.id));
    const auto* const granted = std::get_if<LeaseGranted>(&event.body);
    if (granted == nullptr || !absl::StartsWith(event.request_id, request.session)) continue;
    leases.push_back(FromGrant(lease.id, *granted));
    leases.back().expires_at = lease.expires_at;
  }
  std::sort(leases.begin(), leases.end(), [](const auto& a, const auto& b) { return a.lease < b.lease; });
  return leases;
}

absl::StatusOr<LeaseGranted> RequireGrant(Ledger& ledger, const LeaseRequest& request) {
  const absl::StatusOr<Event> event = ledger.log().Find(request.lease);
  if (!event.ok() && !absl::IsNotFound(event.status())) return event.status();
  const auto* const granted = event.ok() ? std::get_if<LeaseGranted>(&event->body) : nullptr;
  if (granted == nullptr || granted->epoch != request.epoch) {
    return absl::InvalidArgumentError(
        absl::StrCat("there never was a lease ", request.lease, " with epoch ", request.epoch));
  }
  if (event->annotator != request.annotator) {
    return absl::PermissionDeniedError(absl::StrCat("lease ", request.lease, " is not yours"));
  }
  return *granted;
}

absl::StatusOr<Lease> RequireLiveLease(Ledger& ledger, const LeaseRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("annotator", request.annotator));
  const Lease* const lease = ledger.state().leases().Find(request.lease);
  const bool fits = lease != nullptr && lease->annotator == request.annotator && lease->epoch == request.epoch;
  if (fits) return *lease;
  FULCRUM_ASSIGN_OR_RETURN(const LeaseGranted grant, RequireGrant(ledger, request));
  return absl::AbortedError(absl::StrCat("lease ", request.lease, " (item '", grant.item, "', epoch ", request.epoch,
                                         ") has ended; ask for new tasks. A label for it is still taken"));
}

absl::StatusOr<RenewAnswer> RenewLease(Ledger& ledger, const LeaseRequest& request) {
  const std::int64_t fingerprint = FingerprintOf("renew", request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) {
    const auto* const renewed = std::get_if<LeaseRenewed>(&repeated->body);
    return RenewAnswer{renewed == nullptr ? Time() : renewed->expires_at, true};
  }
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, RequireLiveLease(ledger, request));
  // A lease time that was reduced in the settings does not shorten an existing lease.
  const Time expires_at = std::max<Time>(lease.expires_at, ledger.Now() + ledger.state().settings().lease_time);
  const LeaseRenewed renewed{.lease = request.lease, .epoch = request.epoch, .expires_at = expires_at};
  FULCRUM_RETURN_IF_ERROR(ledger.Append(EventOf(request, fingerprint, renewed)).status());
  return RenewAnswer{expires_at, false};
}

absl::StatusOr<ReleaseAnswer> ReleaseLease(Ledger& ledger, const LeaseRequest& request) {
  const std::int64_t fingerprint = FingerprintOf("release", request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) return ReleaseAnswer{repeated->sequence, true};
  FULCRUM_RETURN_IF_ERROR(RequireLiveLease(ledger, request).status());
  const LeaseReleased released{.lease = request.lease, .epoch = request.epoch};
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence, ledger.Append(EventOf(request, fingerprint, released)));
  return ReleaseAnswer{sequence, false};
}

absl::Status ExpireDueLeases(Ledger& ledger) {
  for (const std::int64_t id : ledger.state().leases().Due(ledger.Now())) {
    const Lease lease = *ledger.state().leases().Find(id);
    FULCRUM_RETURN_IF_ERROR(
        ledger.Append({.annotator = lease.annotator, .body = LeaseExpired{lease.id, lease.epoch}}).status());
    FULCRUM_RETURN_IF_ERROR(SetAsideIfExhausted(ledger, lease.item, lease.slot));
  }
  return ExpireDueModelLease(ledger);
}

absl::Status SetAsideIfExhausted(Ledger& ledger, const std::string& item_id, std::int64_t slot_number) {
  const Item& item = *ledger.state().items().Find(item_id);
  const Slot* const slot = ItemTable::FindSlot(item, slot_number);
  const std::int64_t most = ledger.state().settings().most_attempts;
  if (item.status != ItemStatus::kOffered || slot == nullptr || slot->attempts < most) return absl::OkStatus();
  const ItemSetAside set_aside{item_id, absl::StrCat(slot->attempts, " attempts without an answer")};
  return ledger.Append({.body = set_aside}).status();
}

}  // namespace fulcrum::storage
