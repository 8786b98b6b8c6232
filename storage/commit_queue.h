// Operations from many threads, run by one, in groups.
//
// A group is what has come in when the thread is ready for it, at most `most_operations`; an operation counts as many
// times as it has parts. A thread that has just answered a large group waits a moment until half of those have come
// back, at most `most_wait`, and the others come while it writes: a lone caller never waits. Who cannot begin to work
// without an answer may go before who has done with it: up to half of a group is theirs, so that nobody waits for ever.
// Pushing is thread-safe and never blocks; a full queue says so. The destructor runs what is queued and some of the
// idle work, then ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace fulcrum::storage {

class Ledger;

/// Something to do on the writing thread, and somebody to tell.
class Operation {
 public:
  virtual ~Operation() = default;
  /// How many things there are to do, each of which takes its time.
  virtual std::size_t parts() const { return 1; }
  /// May be called again, where the group it was in had to be undone.
  virtual absl::Status Run(Ledger& ledger) = 0;
  /// Called once, after what Run did is on disk, or with the reason why it is not.
  virtual void Answer(const absl::Status& status) = 0;
};

using OperationGroup = std::vector<std::unique_ptr<Operation>>;

/// When an operation gets its turn.
enum class Turn {
  kInOrder,
  kSoon,  ///< before those in order; among themselves as they came
};

struct CommitQueueOptions {
  std::size_t capacity = 8192;
  std::size_t most_operations = 256;
  std::chrono::microseconds most_wait{2000};
  /// With nothing to do for so long, `idle` is called, and again for as long as it says that there is more.
  std::chrono::milliseconds idle_time{200};
  /// At the end it gets so much time for what it still has to do.
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

  /// Takes the operation, or leaves it with the caller: ResourceExhausted where the queue is full.
  absl::Status Push(std::unique_ptr<Operation>& operation, Turn turn = Turn::kInOrder);
  /// Parts of all operations that wait.
  std::size_t size() const;

 private:
  struct Line {
    std::deque<std::unique_ptr<Operation>> operations = {};
    std::size_t parts = 0;
  };
  void Work();
  /// The next group; empty when it is time to be idle, or to end.
  OperationGroup NextGroup(std::chrono::milliseconds idle_time);
  std::size_t Waiting() const { return soon_.parts + in_order_.parts; }
  OperationGroup TakeGroup();
  /// Moves the first operations of a line, as many as fit into `room` parts; returns the room that is left.
  static std::size_t MoveFirst(std::size_t room, Line& from, OperationGroup& to);

  const CommitQueueOptions options_;
  const std::function<void(OperationGroup&)> commit_;
  const std::function<bool()> idle_;

  mutable std::mutex mutex_;
  std::condition_variable filled_;
  Line soon_;
  Line in_order_;
  std::size_t wake_at_ = 1;     ///< parts that the thread is waiting for
  std::size_t last_group_ = 1;  ///< parts in the group before
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace fulcrum::storage
