// A few threads for calls that take their time, so that gRPC's own are never held up.
//
// Thread-safe. The queue is bounded: what does not fit is refused at once, and the client retries.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "storage/commit/commit_queue.h"

namespace fulcrum::pipeline {

class Executor {
 public:
  Executor(std::size_t threads, std::size_t most_queued);
  /// Runs what is queued, then ends.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// False if the queue is full; `task` is not run then. An exception of a task is logged and ends only that task: who
  /// waits for its result must catch it before.
  bool Submit(std::function<void()> task);
  /// The same for the next step of a stream that was accepted before: it waits also if the queue is full. A stream has
  /// at most one step in the queue, so that their number is that of the streams. False if the executor ends.
  bool SubmitNext(std::function<void()> task);
  /// The answer to a call that was not accepted.
  static absl::Status Busy();
  /// Tasks that wait for a thread.
  std::size_t queued() const;

 private:
  void Loop();
  bool Push(std::function<void()> task, std::size_t most_queued);

  const std::size_t most_queued_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

// Sends replies from a thread of its own, so that the thread which found the answers goes on to the next ones.
//
// What gRPC does to send a reply (serialising it, the system call, waking the thread that waits for the end of the
// call) costs several times what a store needs to commit a label; on the store's writing thread it would delay all
// commits. The sender is woken once for all that comes in while it is at work. Thread-safe.

class ReplySender {
 public:
  ReplySender();
  /// Sends what was posted, then ends.
  ~ReplySender();
  ReplySender(const ReplySender&) = delete;
  ReplySender& operator=(const ReplySender&) = delete;

  using Reply = std::function<void()>;

  /// Has the reply sent, in the turn that its request had. It must not wait; an exception is logged and ends only it.
  void Post(Reply reply, storage::Turn turn = storage::Turn::kInOrder);

 private:
  void Loop();
  bool idle() const { return urgent_.empty() && in_order_.empty(); }
  Reply TakeNext();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Reply> urgent_, in_order_;
  bool ending_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace fulcrum::pipeline
