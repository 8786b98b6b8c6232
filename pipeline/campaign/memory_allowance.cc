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

absl::Status MemoryAllowance::CheckFits(const std::string& campaign, std::size_t pool_bytes, std::size_t others,
                                        std::size_t others_bytes) const {
  const std::size_t needed = others_bytes + pool_bytes + (others + 1) * kLeastRoundBytes;
  if (budget_bytes_ == 0 || needed <= budget_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the pool of campaign '%s' takes %.0f MB and does not fit: memory_budget is %.0f MB, the pools of %d other "
      "campaigns take %.0f MB, and every campaign needs %.0f MB for its rounds. Raise memory_budget, delete a "
      "campaign, or give this one fewer rows or features",
      campaign, Megabytes(pool_bytes), Megabytes(budget_bytes_), others, Megabytes(others_bytes),
      Megabytes(kLeastRoundBytes)));
}

absl::StatusOr<MemoryAllowance::Place> MemoryAllowance::Admit(const std::string& campaign, std::size_t pool_bytes) {
  const std::scoped_lock lock(mutex_);
  if (absl::Status status = CheckFits(campaign, pool_bytes, campaigns_, pool_bytes_); !status.ok()) return status;
  pool_bytes_ += pool_bytes;
  ++campaigns_;
  return Place(this, pool_bytes);
}

absl::Status MemoryAllowance::Grow(const std::string& campaign, std::size_t pool_bytes, Place& place) {
  const std::scoped_lock lock(mutex_);
  const std::size_t others_bytes = pool_bytes_ - place.bytes_;
  if (absl::Status status = CheckFits(campaign, pool_bytes, campaigns_ - 1, others_bytes); !status.ok()) return status;
  pool_bytes_ = others_bytes + pool_bytes;
  place.bytes_ = pool_bytes;
  return absl::OkStatus();
}

std::size_t MemoryAllowance::RoundBytes() const {
  const std::scoped_lock lock(mutex_);
  if (budget_bytes_ == 0 || campaigns_ == 0) return budget_bytes_;
  return (budget_bytes_ - pool_bytes_) / campaigns_;
}

}  // namespace fulcrum::pipeline
