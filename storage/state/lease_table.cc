#include "storage/state/lease_table.h"

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {
namespace {

absl::Status NotLive(std::int64_t id) {
  return absl::DataLossError(absl::StrCat("lease ", id, " is not live"));
}

}  // namespace

void LeaseTable::Keep(std::int64_t id) {
  if (!keeps_) return;
  const Lease* const lease = Find(id);
  before_.try_emplace(id, lease == nullptr ? std::nullopt : std::optional(*lease));
}

void LeaseTable::Begin() {
  keeps_ = true;
  cost_before_ = cost_;
}

void LeaseTable::Accept() {
  keeps_ = false;
  before_.clear();
}

void LeaseTable::RollBack() {
  for (auto& [id, lease] : before_) {
    if (const Lease* const now = Find(id)) {
      expiries_.erase({now->expires_at, id});
      LetGo(*now);
    }
    leases_.erase(id);
    if (!lease) continue;
    Hold(*lease);
    expiries_.insert({lease->expires_at, id});
    leases_.emplace(id, *std::move(lease));
  }
  Accept();
  cost_ = cost_before_;
}

void LeaseTable::Grant(Lease lease) {
  Keep(lease.id);
  cost_ += lease.cost;
  Hold(lease);
  expiries_.insert({lease.expires_at, lease.id});
  const std::int64_t id = lease.id;
  leases_.insert_or_assign(id, std::move(lease));
}

absl::StatusOr<Lease> LeaseTable::Renew(const LeaseRenewed& renewed) {
  const auto found = leases_.find(renewed.lease);
  if (found == leases_.end()) return NotLive(renewed.lease);
  Keep(renewed.lease);
  Lease& lease = found->second;
  expiries_.erase({lease.expires_at, lease.id});
  lease.expires_at = renewed.expires_at;
  expiries_.insert({lease.expires_at, lease.id});
  return lease;
}

absl::StatusOr<Lease> LeaseTable::End(std::int64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return NotLive(id);
  Keep(id);
  Lease lease = std::move(found->second);
  leases_.erase(found);
  LetGo(lease);
  expiries_.erase({lease.expires_at, lease.id});
  // No rounding error survives the last lease.
  cost_ = leases_.empty() ? 0 : cost_ - lease.cost;
  return lease;
}

void LeaseTable::Hold(const Lease& lease) {
  Held& held = held_[lease.annotator];
  ++held.leases;
  held.cost += lease.cost;
}

void LeaseTable::LetGo(const Lease& lease) {
  const auto held = held_.find(lease.annotator);
  held->second.cost -= lease.cost;
  // No rounding error survives the last lease.
  if (--held->second.leases == 0) held_.erase(held);
}

LeaseTable::Held LeaseTable::HeldBy(absl::string_view annotator) const {
  const auto found = held_.find(annotator);
  return found == held_.end() ? Held() : found->second;
}

void LeaseTable::Shift(std::chrono::microseconds gap) {
  expiries_.clear();
  for (auto& [id, lease] : leases_) {
    lease.expires_at += gap;
    expiries_.insert({lease.expires_at, id});
  }
}

const Lease* LeaseTable::Find(std::int64_t id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

void LeaseTable::Visit(const std::function<void(const Lease&)>& visit) const {
  for (const auto& [id, lease] : leases_) visit(lease);
}

std::optional<Time> LeaseTable::NextExpiry() const {
  if (expiries_.empty()) return std::nullopt;
  return expiries_.begin()->first;
}

std::vector<std::int64_t> LeaseTable::Due(Time now) const {
  std::vector<std::int64_t> due;
  for (const auto& [expires_at, lease] : expiries_) {
    if (expires_at > now) break;
    due.push_back(lease);
  }
  return due;
}

}  // namespace fulcrum::storage
