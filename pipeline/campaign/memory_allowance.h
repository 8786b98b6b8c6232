// How the daemon's memory budget is divided among its campaigns.
//
// Pools stay in memory as long as their campaigns are there, so a pool that does not fit is refused. What pools leave
// is for rounds, an equal share a campaign: a round gets told its share and chooses how to compute within it.
// Thread-safe.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace fulcrum::pipeline {

class MemoryAllowance {
 public:
  /// `budget_bytes` for pools and rounds together; 0: no limit but the machine's.
  explicit MemoryAllowance(std::size_t budget_bytes) : budget_bytes_(budget_bytes) {}

  /// A campaign's place in the budget; gives it back when it goes. Must not outlive the allowance.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept { *this = std::move(other); }
    Place& operator=(Place&& other) noexcept;
    ~Place();

   private:
    friend class MemoryAllowance;
    Place(MemoryAllowance* allowance, std::size_t bytes) : allowance_(allowance), bytes_(bytes) {}
    MemoryAllowance* allowance_ = nullptr;
    std::size_t bytes_ = 0;
  };

  /// ResourceExhausted where the pool does not fit beside the others, with room for their rounds.
  absl::StatusOr<Place> Admit(const std::string& campaign, std::size_t pool_bytes);

  /// What one campaign's round may use now, beside the pools; 0: no limit.
  std::size_t RoundBytes() const;

 private:
  const std::size_t budget_bytes_;
  mutable std::mutex mutex_;
  std::size_t pool_bytes_ = 0;
  std::size_t campaigns_ = 0;
};

}  // namespace fulcrum::pipeline
