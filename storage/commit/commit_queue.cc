#include "storage/commit/commit_queue.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {
namespace {

// Three times the processor time of an ordinary thread, if there are more threads than processors.
constexpr int kNiceness = -5;

/// On Linux each thread has its own niceness. A process that may not lower it (`ulimit -e`) continues without.
void RaiseThreadPriority() {
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
}

}  // namespace

CommitQueue::CommitQueue(const CommitQueueOptions& options, std::function<void(OperationGroup&)> commit,
                         std::function<bool()> idle)
    : options_(options), commit_(std::move(commit)), idle_(std::move(idle)), thread_([this] { Work(); }) {}

CommitQueue::~CommitQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

absl::Status CommitQueue::Push(std::unique_ptr<Operation>& operation, Turn turn) {
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (Waiting() >= options_.capacity) {
      return absl::ResourceExhaustedError(
          absl::StrCat(Waiting(), " operations are waiting to be written; try again in a moment"));
    }
    Line& line = turn == Turn::kUrgent ? urgent_ : in_order_;
    line.parts += operation->parts();
    line.operations.push_back(std::move(operation));
    wake = Waiting() >= wake_at_;
  }
  // Waking the thread for every operation would cost more than the operations.
  if (wake) filled_.notify_one();
  return absl::OkStatus();
}

std::size_t CommitQueue::size() const {
  const std::scoped_lock lock(mutex_);
  return Waiting();
}

std::size_t CommitQueue::MoveFirst(std::size_t room, Line& from, OperationGroup& to) {
  while (!from.operations.empty()) {
    const std::size_t parts = from.operations.front()->parts();
    // An operation that is larger than a group is a group of its own.
    if (parts > room && !to.empty()) return room;
    from.parts -= parts;
    room -= std::min(room, parts);
    to.push_back(std::move(from.operations.front()));
    from.operations.pop_front();
  }
  return room;
}

OperationGroup CommitQueue::TakeGroup() {
  const std::size_t most = options_.most_operations;
  const std::size_t left_by_others = most - std::min(most, in_order_.parts);
  const std::size_t for_urgent = std::max(most / 2, left_by_others);
  OperationGroup group;
  group.reserve(std::min(Waiting(), most));
  const std::size_t left = MoveFirst(for_urgent, urgent_, group);
  MoveFirst(most - for_urgent + left, in_order_, group);
  return group;
}

OperationGroup CommitQueue::NextGroup(std::chrono::milliseconds idle_time) {
  std::unique_lock lock(mutex_);
  const auto enough = [this] { return stopping_ || Waiting() >= wake_at_; };
  wake_at_ = 1;
  if (!filled_.wait_for(lock, idle_time, enough)) return {};
  // Half as many: the others arrive while these are being written.
  wake_at_ = std::min((last_group_ + 1) / 2, options_.most_operations);
  filled_.wait_for(lock, options_.most_wait, enough);
  wake_at_ = SIZE_MAX;  // the thread is awake
  const std::size_t before = Waiting();
  OperationGroup group = TakeGroup();
  last_group_ = std::max<std::size_t>(before - Waiting(), 1);
  return group;
}

void CommitQueue::Work() {
  // All other threads wait for this one sooner or later.
  RaiseThreadPriority();
  for (bool more_idle_work = false;;) {
    OperationGroup group = NextGroup(more_idle_work ? std::chrono::milliseconds(0) : options_.idle_time);
    if (!group.empty()) {
      commit_(group);
      more_idle_work = false;
      continue;
    }
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_ && Waiting() == 0) break;
    }
    more_idle_work = idle_();
  }
  const auto enough = std::chrono::steady_clock::now() + options_.most_idle_time_at_end;
  while (idle_() && std::chrono::steady_clock::now() < enough) {
  }
}

}  // namespace fulcrum::storage
