#include "pipeline/campaign/memory_allowance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {
namespace {

// Of the budget, for a round of a campaign that does not say how much it wants.
constexpr std::size_t kUsualPart = 4;

double Megabytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

struct MemoryBudgetShare::Claim {
  std::string campaign = {};
  std::size_t pool_bytes = 0;
  std::size_t round_bytes = 0;
  std::function<void()> on_wanted = {};
  bool held = false;  // its round runs, or it keeps what the last one left
  bool busy = false;  // its round runs
  bool idle = false;  // its rounds do not fit: those of others do not have to leave room for them

  std::size_t room() const { return idle ? kLeastRoundBytes : round_bytes; }
};

MemoryBudgetShare::MemoryBudgetShare(std::size_t budget_bytes) : budget_bytes_(budget_bytes) {}

MemoryBudgetShare::~MemoryBudgetShare() = default;

MemoryBudgetShare::Place& MemoryBudgetShare::Place::operator=(Place&& other) noexcept {
  std::swap(allowance_, other.allowance_);
  std::swap(claim_, other.claim_);
  return *this;
}

MemoryBudgetShare::Place::~Place() {
  if (allowance_ != nullptr) allowance_->Remove(claim_);
}

void MemoryBudgetShare::Remove(const Claim* claim) {
  {
    const std::scoped_lock lock(mutex_);
    claims_.remove_if([claim](const Claim& other) { return &other == claim; });
  }
  changed_.notify_all();
}

std::size_t MemoryBudgetShare::UsualRoundBytes() const {
  return budget_bytes_ == 0 ? 0 : std::max(kLeastRoundBytes, budget_bytes_ / kUsualPart);
}

absl::Status MemoryBudgetShare::CheckFits(const std::string& campaign, const Claim& claim) const {
  std::size_t others = 0, others_bytes = 0, largest_round = claim.room();
  for (const Claim& other : claims_) {
    if (&other == &claim) continue;
    ++others;
    others_bytes += other.pool_bytes;
    largest_round = std::max(largest_round, other.room());
  }
  if (budget_bytes_ == 0 || others_bytes + claim.pool_bytes + largest_round <= budget_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the pool of campaign '%s' takes %.0f MB and does not fit: memory_budget is %.0f MB, the pools of %d other "
      "campaigns take %.0f MB, and %.0f MB must be left for a round (selection.memory_mib). Raise memory_budget, "
      "delete a campaign, or give this one fewer rows or features, or less for its rounds",
      campaign, Megabytes(claim.pool_bytes), Megabytes(budget_bytes_), others, Megabytes(others_bytes),
      Megabytes(largest_round)));
}

absl::StatusOr<MemoryBudgetShare::Place> MemoryBudgetShare::Admit(Request request) {
  Claim claim{.campaign = request.campaign,
              .pool_bytes = request.pool_bytes,
              .round_bytes = request.round_bytes,
              .on_wanted = std::move(request.on_wanted)};
  const std::scoped_lock lock(mutex_);
  absl::Status status = CheckFits(request.campaign, claim);
  if (!status.ok() && request.exists) {
    claim.idle = true;
    status = CheckFits(request.campaign, claim);
  }
  if (!status.ok()) return status;
  return Place(this, &claims_.emplace_back(std::move(claim)));
}

absl::Status MemoryBudgetShare::CheckRound(const std::string& campaign, std::size_t round_bytes,
                                           const Place& place) const {
  const std::scoped_lock lock(mutex_);
  const bool was_idle = std::exchange(place.claim_->idle, false);
  const std::size_t before = std::exchange(place.claim_->round_bytes, round_bytes);
  absl::Status status = CheckFits(campaign, *place.claim_);
  place.claim_->round_bytes = before;
  place.claim_->idle = was_idle;
  return status;
}

void MemoryBudgetShare::SetRound(std::size_t round_bytes, Place& place) {
  {
    const std::scoped_lock lock(mutex_);
    place.claim_->round_bytes = round_bytes;
    place.claim_->idle = !CheckOwnRound(*place.claim_).ok();
  }
  changed_.notify_all();
}

absl::Status MemoryBudgetShare::CheckOwnRound(const Claim& claim) const {
  std::size_t pools = 0;
  for (const Claim& other : claims_) pools += other.pool_bytes;
  if (budget_bytes_ == 0 || pools + claim.round_bytes <= budget_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "a round of campaign '%s' may use %.0f MB (selection.memory_mib) and does not fit: memory_budget is %.0f MB, of "
      "which the pools take %.0f MB. Raise memory_budget, delete a campaign, or lower selection.memory_mib of this one",
      claim.campaign, Megabytes(claim.round_bytes), Megabytes(budget_bytes_), Megabytes(pools)));
}

absl::Status MemoryBudgetShare::Grow(const std::string& campaign, std::size_t pool_bytes, Place& place) {
  const std::scoped_lock lock(mutex_);
  const std::size_t before = std::exchange(place.claim_->pool_bytes, pool_bytes);
  absl::Status status = CheckFits(campaign, *place.claim_);
  if (!status.ok()) place.claim_->pool_bytes = before;
  return status;
}

bool MemoryBudgetShare::HasRoomFor(const Claim& claim) const {
  if (budget_bytes_ == 0 || claim.held) return true;
  std::size_t taken = claim.round_bytes;
  for (const Claim& other : claims_) taken += other.pool_bytes + (other.held ? other.round_bytes : 0);
  return taken <= budget_bytes_;
}

void MemoryBudgetShare::AskForRoom() const {
  for (const Claim& claim : claims_) {
    if (claim.held && !claim.busy && claim.on_wanted) claim.on_wanted();
  }
}

absl::Status MemoryBudgetShare::BeginRound(Place& place, std::stop_token stop) {
  std::unique_lock lock(mutex_);
  Claim& claim = *place.claim_;
  waiting_.push_back(&claim);
  absl::Status fits;
  const bool entered = changed_.wait(lock, std::move(stop), [&] {
    // Others may have been created or have grown meanwhile.
    fits = CheckOwnRound(claim);
    if (!fits.ok()) return true;
    // Who keeps its room from the round before takes none from those who wait.
    if (HasRoomFor(claim) && (claim.held || waiting_.front() == &claim)) return true;
    AskForRoom();
    return false;
  });
  waiting_.remove(&claim);
  if (entered && fits.ok()) {
    claim.held = claim.busy = true;
    claim.idle = false;
  }
  lock.unlock();
  changed_.notify_all();
  if (!fits.ok()) return fits;
  return entered ? absl::OkStatus() : absl::CancelledError("stopped on request while it waited for memory");
}

std::vector<std::string> MemoryBudgetShare::WaitsFor(const Place& place) const {
  const std::scoped_lock lock(mutex_);
  if (std::find(waiting_.begin(), waiting_.end(), place.claim_) == waiting_.end()) return {};
  std::vector<std::string> names;
  for (const Claim& claim : claims_) {
    if (claim.held && &claim != place.claim_) names.push_back(claim.campaign);
  }
  for (const Claim* const first : waiting_) {
    if (first == place.claim_) break;
    names.push_back(first->campaign);
  }
  return names;
}

void MemoryBudgetShare::EndRound(Place& place) {
  {
    const std::scoped_lock lock(mutex_);
    place.claim_->busy = false;
  }
  changed_.notify_all();
}

void MemoryBudgetShare::GiveBack(Place& place) {
  {
    const std::scoped_lock lock(mutex_);
    if (!place.claim_->busy) place.claim_->held = false;
  }
  changed_.notify_all();
}

}  // namespace fulcrum::pipeline
