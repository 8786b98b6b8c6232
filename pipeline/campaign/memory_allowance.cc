#include "pipeline/campaign/memory_allowance.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {
namespace {

// Below this no engine has room to work in.
constexpr std::size_t kLeastRoundBytes = std::size_t{32} << 20;

double Megabytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

MemoryAllowance::Place& MemoryAllowance::Place::operator=(Place&& other) noexcept {
  std::swap(allowance_, other.allowance_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MemoryAllowance::Place::~Place() {
  if (allowance_ == nullptr) return;
  const std::scoped_lock lock(allowance_->mutex_);
  allowance_->pool_bytes_ -= bytes_;
  --allowance_->campaigns_;
}

absl::StatusOr<MemoryAllowance::Place> MemoryAllowance::Admit(const std::string& campaign, std::size_t pool_bytes) {
  const std::scoped_lock lock(mutex_);
  const std::size_t needed = pool_bytes_ + pool_bytes + (campaigns_ + 1) * kLeastRoundBytes;
  if (budget_bytes_ > 0 && needed > budget_bytes_) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the pool of campaign '%s' takes %.0f MB and does not fit: memory_budget is %.0f MB, the pools of %d other "
        "campaigns take %.0f MB, and every campaign needs %.0f MB for its rounds. Raise memory_budget, delete a "
        "campaign, or give this one fewer rows or features",
        campaign, Megabytes(pool_bytes), Megabytes(budget_bytes_), campaigns_, Megabytes(pool_bytes_),
        Megabytes(kLeastRoundBytes)));
  }
  pool_bytes_ += pool_bytes;
  ++campaigns_;
  return Place(this, pool_bytes);
}

std::size_t MemoryAllowance::RoundBytes() const {
  const std::scoped_lock lock(mutex_);
  if (budget_bytes_ == 0 || campaigns_ == 0) return budget_bytes_;
  return (budget_bytes_ - pool_bytes_) / campaigns_;
}

}  // namespace fulcrum::pipeline
