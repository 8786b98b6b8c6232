#include "pipeline/campaign/growing_pool.h"

#include <utility>

#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

std::shared_ptr<const CampaignPool> GrowingPool::now() const {
  const std::scoped_lock lock(mutex_);
  return pool_;
}

absl::StatusOr<std::shared_ptr<const CampaignPool>> GrowingPool::Follow(
    const std::vector<storage::AppendedRows>& appended, const storage::CampaignFolder& folder,
    std::shared_ptr<const CampaignPool> prepared) {
  const std::scoped_lock growing(growing_);
  std::shared_ptr<const CampaignPool> pool = now();
  // The first folder is the one that the campaign was made with.
  while (pool->folders().size() < appended.size() + 1) {
    const std::string next = folder.File(appended[pool->folders().size() - 1].folder);
    const bool fits = prepared != nullptr && prepared->folders().size() == pool->folders().size() + 1 &&
                      prepared->folders().back() == next;
    if (fits) {
      pool = std::exchange(prepared, nullptr);
    } else {
      FULCRUM_ASSIGN_OR_RETURN(pool, pool->With(next));
    }
  }
  const std::scoped_lock lock(mutex_);
  pool_ = pool;
  return pool;
}

}  // namespace fulcrum::pipeline
