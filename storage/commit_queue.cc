#include "storage/commit_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::storage {

CommitQueue::CommitQueue(const CommitQueueOptions& options, std::function<void(OperationGroup&)> commit,
                         std::function<void()> idle)
    : options_(options), commit_(std::move(commit)), idle_(std::move(idle)), thread_([this] { Work(); }) {}

CommitQueue::~CommitQueue() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

absl::Status CommitQueue::Push(std::unique_ptr<Operation>& operation) {
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= options_.capacity) {
      return absl::ResourceExhaustedError(
          absl::StrCat(waiting_.size(), " operations are waiting to be written; try again in a moment"));
    }
    waiting_.push_back(std::move(operation));
    wake = waiting_.size() >= wake_at_;
  }
  // Waking the thread for every operation would cost more than the operations.
  if (wake) filled_.notify_one();
  return absl::OkStatus();
}

std::size_t CommitQueue::size() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.size();
}

OperationGroup CommitQueue::NextGroup() {
  std::unique_lock lock(mutex_);
  const auto enough = [this] { return stopping_ || waiting_.size() >= wake_at_; };
  wake_at_ = 1;
  if (!filled_.wait_for(lock, options_.idle_time, enough)) return {};
  wake_at_ = std::min(last_group_, options_.most_operations);
  filled_.wait_for(lock, options_.most_wait, enough);
  wake_at_ = SIZE_MAX;  // the thread is awake
  const std::size_t count = std::min(waiting_.size(), options_.most_operations);
  OperationGroup group;
  group.reserve(count);
  std::move(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count), std::back_inserter(group));
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
  last_group_ = std::max<std::size_t>(count, 1);
  return group;
}

void CommitQueue::Work() {
  for (;;) {
    OperationGroup group = NextGroup();
    if (!group.empty()) {
      commit_(group);
      continue;
    }
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_ && waiting_.empty()) break;
    }
    idle_();
  }
  idle_();
}

}  // namespace fulcrum::storage
