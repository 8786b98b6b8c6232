// Takes tasks for a worker, and waits for some where there are none.
//
// Never blocks: the answer comes through a callback, on the thread that sends replies or one of the waiters'.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/labeling_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/services/reply_sender.h"
#include "pipeline/services/task_waiters.h"
#include "storage/lease_rules.h"

namespace fulcrum::pipeline {

struct AcquireCall {
  std::shared_ptr<Campaign> campaign = {};
  std::string annotator = {};
  std::string request_id = {};
  std::int64_t most = 1;
  TaskWaiters::Clock::time_point until = {};
  /// A person may sit in front of an empty screen.
  storage::Turn turn = storage::Turn::kSoon;
  /// Whether the worker has gone meanwhile: it then gets nothing.
  std::function<bool()> gone = {};
};

/// What came of it; no tasks where there were none for as long as the worker waited.
struct TakenTasks {
  std::vector<storage::GrantedLease> leases = {};
  bool campaign_over = false;

  /// Whether a worker gains by being told.
  bool worth_telling() const { return campaign_over || !leases.empty(); }
};

/// What a worker is told of the tasks it has taken.
void DescribeTasks(const Campaign& campaign, const TakenTasks& taken, v1::AcquireTasksResponse& response);

class TaskAcquirer {
 public:
  using Done = std::function<void(const absl::StatusOr<TakenTasks>&)>;

  /// Both must outlive it.
  TaskAcquirer(TaskWaiters& waiters, ReplySender& replies) : waiters_(waiters), replies_(replies) {}

  void Acquire(AcquireCall call, Done done) { Try(std::make_shared<Attempt>(std::move(call), std::move(done)), false); }

 private:
  struct Attempt {
    AcquireCall call = {};
    Done done = {};
  };
  void Try(const std::shared_ptr<Attempt>& attempt, bool again);
  void Receive(const std::shared_ptr<Attempt>& attempt, bool again, absl::StatusOr<storage::AcquireAnswer> answer);
  void WaitOrGiveUp(const std::shared_ptr<Attempt>& attempt, bool again);
  void Resume(const std::shared_ptr<Attempt>& attempt, Wake why);

  TaskWaiters& waiters_;
  ReplySender& replies_;
};

}  // namespace fulcrum::pipeline
