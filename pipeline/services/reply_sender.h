// Sends replies from a thread of its own, so that the thread which found the answers goes on to the next ones.
//
// What gRPC does to send a reply (serialising it, the system call, waking whoever waits for the end of the call) costs
// several times what a store needs to commit a label; on the store's writing thread it would hold up everybody. The
// sender is woken once for all that comes in while it is at work. Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "storage/commit_queue.h"

namespace fulcrum::pipeline {

class ReplySender {
 public:
  ReplySender();
  /// Sends what was posted, then ends.
  ~ReplySender();
  ReplySender(const ReplySender&) = delete;
  ReplySender& operator=(const ReplySender&) = delete;

  using Reply = std::function<void()>;

  /// Has the reply sent, in the turn that its request had. It must not throw or wait.
  void Post(Reply reply, storage::Turn turn = storage::Turn::kInOrder);

 private:
  void Loop();
  bool idle() const { return soon_.empty() && in_order_.empty(); }
  Reply TakeNext();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Reply> soon_, in_order_;
  bool ending_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace fulcrum::pipeline
