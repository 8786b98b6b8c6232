#include "storage/state/lease_rules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/label_rules.h"

namespace fulcrum::storage {
namespace {

constexpr std::int64_t kMostLeasesAtOnce = 1000;

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

absl::StatusOr<Allowance> ComputeAllowance(const CampaignState& state) {
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
  return allowance;
}

std::vector<LeaseGranted> ChooseSlots(const CampaignState& state, const AcquireRequest& request, Allowance allowance) {
  std::vector<LeaseGranted> grants;
  const std::int64_t most = std::min(request.most, allowance.labels);
  absl::flat_hash_set<const Item*> chosen;
  std::size_t bytes = 0;
  state.items().VisitOpenSlots([&](const Item& item, const Slot& slot) {
    if (static_cast<std::int64_t>(grants.size()) >= most) return false;
    // An annotator gets at most one slot of an item.
    const bool wrong = chosen.contains(&item) || item.cost > allowance.cost;
    if (wrong || !state.MayAnswer(item, request.annotator)) return true;
    if (request.most_bytes > 0) bytes += request.bytes_of(item.id);
    // The next ones would be worse, and might not fit either.
    if (!grants.empty() && request.most_bytes > 0 && bytes > request.most_bytes) return false;
    chosen.insert(&item);
    allowance.cost -= item.cost;
    grants.push_back({.item = item.id, .slot = slot.number, .epoch = slot.epoch + 1, .round = slot.round});
    return true;
  });
  return grants;
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
  FULCRUM_ASSIGN_OR_RETURN(const Allowance allowance, ComputeAllowance(ledger.state()));
  AcquireAnswer answer;
  const Time expires_at = ledger.Now() + ledger.state().settings().lease_time;
  for (LeaseGranted& grant : ChooseSlots(ledger.state(), request, allowance)) {
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
  return absl::OkStatus();
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
