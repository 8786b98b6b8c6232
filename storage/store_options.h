// How a campaign's store is run. A plain value.
#pragma once

#include <chrono>
#include <functional>

#include "absl/status/status.h"
#include "storage/campaign_status.h"
#include "storage/clock.h"
#include "storage/commit_queue.h"

namespace fulcrum::storage {

struct StoreOptions {
  /// Must outlive the store; an AnchoredClock where there is none.
  const Clock* clock = nullptr;
  CommitQueueOptions queue = {};
  /// Reads the whole database once at open.
  bool check_integrity = true;
  /// Called on the writing thread after a commit that changed something, before its answers.
  std::function<void(const CampaignStatus&)> on_commit = {};
  /// Called on the writing thread with the time that a commit that changed something took, before `on_commit`.
  std::function<void(std::chrono::nanoseconds)> on_commit_time = {};
  /// Called once, on the writing thread, when the store is over.
  std::function<void(const absl::Status&)> on_fatal = {};
};

}  // namespace fulcrum::storage
