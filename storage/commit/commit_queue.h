// Operations from many threads, run by one thread, in groups.
//
// A group is what is queued when the thread is ready, at most `most_operations`; an operation counts as many times as
// it has parts. After a large group the thread waits until half as many are queued again, at most `most_wait`; the
// others arrive while it writes. A single caller never waits for that. Operations whose callers cannot start to work
// without the answer may overtake the others: they get up to half of a group, so that every operation has its turn.
// Pushing is thread-safe and never blocks; a full queue is an error. The destructor runs what is queued and some of the
// idle work.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace fulcrum::storage {

class Ledger;

/// Something to do on the writing thread, with an answer.
class Operation {
 public:
  virtual ~Operation() = default;
  /// Its share of a group.
  virtual std::size_t parts() const { return 1; }
  /// May be called again, if its group was rolled back.
  virtual absl::Status Run(Ledger& ledger) = 0;
  /// Called once, after what Run did is on disk, or with the reason why it is not.
  virtual void Answer(const absl::Status& status) = 0;
};

using OperationGroup = std::vector<std::unique_ptr<Operation>>;

/// When an operation gets its turn.
enum class Turn {
  kInOrder,
  kUrgent,  ///< before those in order
};

struct CommitQueueOptions {
  std::size_t capacity = 8192;
  std::size_t most_operations = 256;
  std::chrono::microseconds most_wait{2000};
  /// After so long without operations `idle` is called, and again while it returns that there is more to do.
  std::chrono::milliseconds idle_time{200};
  /// The time for idle work in the destructor.
  std::chrono::milliseconds most_idle_time_at_end{1000};
};

class CommitQueue {
 public:
  /// `commit` and `idle` run on the queue's thread.
  CommitQueue(const CommitQueueOptions& options, std::function<void(OperationGroup&)> commit,
              std::function<bool()> idle);
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  /// Takes the operation, or leaves it with the caller: ResourceExhausted if the queue is full.
  absl::Status Push(std::unique_ptr<Operation>& operation, Turn turn = Turn::kInOrder);
  /// Parts of all queued operations.
  std::size_t size() const;

 private:
  struct Line {
    std::deque<std::unique_ptr<Operation>> operations = {};
    std::size_t parts = 0;
  };
  void Work();
  /// The next group; empty if it is time for idle work, or to end.
  OperationGroup NextGroup(std::chrono::milliseconds idle_time);
  std::size_t Waiting() const { return urgent_.parts + in_order_.parts; }
  OperationGroup TakeGroup();
  /// Moves the first operations of a line, as many as fit into `room` parts; returns the room that is left.
  static std::size_t MoveFirst(std::size_t room, Line& from, OperationGroup& to);

  const CommitQueueOptions options_;
  const std::function<void(OperationGroup&)> commit_;
  const std::function<bool()> idle_;

  mutable std::mutex mutex_;
  std::condition_variable filled_;
  Line urgent_;
  Line in_order_;
  std::size_t wake_at_ = 1;     ///< parts that the thread is waiting for
  std::size_t last_group_ = 1;  ///< parts in the group before
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace fulcrum::storage
