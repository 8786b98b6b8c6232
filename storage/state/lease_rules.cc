#include "storage/state/lease_rules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "stages/core/status_macros.h"
#include "storage/state/label_rules.h"

namespace fulcrum::storage {
namespace {

constexpr std::int64_t kMostLeasesAtOnce = 1000;

GrantedLease FromGrant(const Event& event) {
  return {.lease = event.sequence,
          .epoch = event.epoch,
          .item = event.item,
          .slot = event.slot,
          .round = event.round,
          .expires_at = FromMicros(event.number)};
}

absl::StatusOr<AcquireAnswer> RepeatAcquire(Ledger& ledger, const Event& first) {
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<Event> events, EventsOfRequest(ledger, first));
  AcquireAnswer answer{.repeated = true};
  for (const Event& event : events) answer.leases.push_back(FromGrant(event));
  return answer;
}

/// What the budgets still allow, leases that are out counted as if answered.
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
    allowance.cost = settings.cost_budget - state.totals().cost - state.leased_cost();
  }
  return allowance;
}

std::vector<Event> ChooseSlots(const CampaignState& state, const AcquireRequest& request, Allowance allowance) {
  std::vector<Event> grants;
  const std::int64_t most = std::min(request.most, allowance.labels);
  absl::flat_hash_set<const Item*> chosen;
  state.VisitOpenSlots([&](const Item& item, const Slot& slot) {
    if (static_cast<std::int64_t>(grants.size()) >= most) return false;
    // Nobody gets two slots of one item.
    const bool wrong = chosen.contains(&item) || item.cost > allowance.cost;
    if (wrong || !state.MayAnswer(item, request.annotator)) return true;
    chosen.insert(&item);
    allowance.cost -= item.cost;
    grants.push_back({.kind = EventKind::kLeaseGranted,
                      .annotator = request.annotator,
                      .request_id = request.request_id,
                      .item = item.id,
                      .slot = slot.number,
                      .epoch = slot.epoch + 1,
                      .round = slot.round});
    return true;
  });
  return grants;
}

std::int64_t FingerprintOf(absl::string_view kind, const LeaseRequest& request) {
  return Fingerprint({kind, absl::StrCat(request.lease), absl::StrCat(request.epoch)});
}

Event EventOf(EventKind kind, const LeaseRequest& request, std::int64_t fingerprint) {
  return {.kind = kind,
          .annotator = request.annotator,
          .request_id = request.request_id,
          .fingerprint = fingerprint,
          .lease = request.lease,
          .epoch = request.epoch};
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
  for (Event& grant : ChooseSlots(ledger.state(), request, allowance)) {
    grant.fingerprint = fingerprint;
    grant.number = ToMicros(expires_at);
    FULCRUM_ASSIGN_OR_RETURN(grant.sequence, ledger.Append(grant));
    answer.leases.push_back(FromGrant(grant));
  }
  return answer;
}

absl::StatusOr<Event> RequireGrant(Ledger& ledger, const LeaseRequest& request) {
  auto grant = ledger.log().Find(request.lease);
  if (!grant.ok() && !absl::IsNotFound(grant.status())) return grant.status();
  if (!grant.ok() || grant->kind != EventKind::kLeaseGranted || grant->epoch != request.epoch) {
    return absl::InvalidArgumentError(
        absl::StrCat("there never was a lease ", request.lease, " with epoch ", request.epoch));
  }
  if (grant->annotator != request.annotator) {
    return absl::PermissionDeniedError(absl::StrCat("lease ", request.lease, " is not yours"));
  }
  return grant;
}

absl::StatusOr<Lease> RequireLiveLease(Ledger& ledger, const LeaseRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckText("annotator", request.annotator));
  const Lease* const lease = ledger.state().FindLease(request.lease);
  const bool fits = lease != nullptr && lease->annotator == request.annotator && lease->epoch == request.epoch;
  if (fits) return *lease;
  FULCRUM_ASSIGN_OR_RETURN(const Event grant, RequireGrant(ledger, request));
  return absl::AbortedError(absl::StrCat("lease ", request.lease, " (item '", grant.item, "', epoch ", request.epoch,
                                         ") has ended; ask for new tasks. A label for it is still taken"));
}

absl::StatusOr<RenewAnswer> RenewLease(Ledger& ledger, const LeaseRequest& request) {
  const std::int64_t fingerprint = FingerprintOf("renew", request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) return RenewAnswer{FromMicros(repeated->number), true};
  FULCRUM_ASSIGN_OR_RETURN(const Lease lease, RequireLiveLease(ledger, request));
  // A lease time that was made shorter meanwhile does not shorten what was promised.
  const Time expires_at = std::max<Time>(lease.expires_at, ledger.Now() + ledger.state().settings().lease_time);
  Event event = EventOf(EventKind::kLeaseRenewed, request, fingerprint);
  event.number = ToMicros(expires_at);
  FULCRUM_RETURN_IF_ERROR(ledger.Append(std::move(event)).status());
  return RenewAnswer{expires_at, false};
}

absl::StatusOr<ReleaseAnswer> ReleaseLease(Ledger& ledger, const LeaseRequest& request) {
  const std::int64_t fingerprint = FingerprintOf("release", request);
  FULCRUM_ASSIGN_OR_RETURN(const auto repeated,
                           FindRepeatedIfNamed(ledger, {request.annotator, request.request_id, fingerprint}));
  if (repeated.has_value()) return ReleaseAnswer{repeated->sequence, true};
  FULCRUM_RETURN_IF_ERROR(RequireLiveLease(ledger, request).status());
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t sequence,
                           ledger.Append(EventOf(EventKind::kLeaseReleased, request, fingerprint)));
  return ReleaseAnswer{sequence, false};
}

absl::Status ExpireDueLeases(Ledger& ledger) {
  for (const std::int64_t id : ledger.state().LeasesDue(ledger.Now())) {
    const Lease lease = *ledger.state().FindLease(id);
    FULCRUM_RETURN_IF_ERROR(ledger
                                .Append({.kind = EventKind::kLeaseExpired,
                                         .annotator = lease.annotator,
                                         .lease = lease.id,
                                         .epoch = lease.epoch})
                                .status());
    FULCRUM_RETURN_IF_ERROR(SetAsideIfExhausted(ledger, lease.item, lease.slot));
  }
  return absl::OkStatus();
}

absl::Status SetAsideIfExhausted(Ledger& ledger, const std::string& item_id, std::int64_t slot_number) {
  const Item& item = *ledger.state().FindItem(item_id);
  const Slot* const slot = CampaignState::FindSlot(item, slot_number);
  const std::int64_t most = ledger.state().settings().most_attempts;
  if (item.status != ItemStatus::kOffered || slot == nullptr || slot->attempts < most) return absl::OkStatus();
  return ledger
      .Append({.kind = EventKind::kItemSetAside,
               .item = item_id,
               .reason = absl::StrCat(slot->attempts, " attempts without an answer")})
      .status();
}

}  // namespace fulcrum::storage
