// Sends replies from a thread of its own, so that the thread which found the answers goes on to the next ones.
//
// What gRPC does to send a reply (serialising it, the system call, waking whoever waits for the end of the call) costs
// several times what a store needs to commit a label; on the store's writing thread it would hold up everybody. The
// sender takes all that has come in at a time, and is woken once for it. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fulcrum::pipeline {

class ReplySender {
 public:
  ReplySender();
  /// Sends what was posted, then ends.
  ~ReplySender();
  ReplySender(const ReplySender&) = delete;
  ReplySender& operator=(const ReplySender&) = delete;

  /// Has the reply sent soon, after those before it. It must not throw or wait.
  void Post(std::function<void()> reply);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<std::function<void()>> replies_;
  bool ending_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace fulcrum::pipeline
