// A few threads for calls that take their time, so that gRPC's own are never held up.
//
// Thread-safe. The queue is bounded: what does not fit is refused at once, which a client hears as "try again".
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fulcrum::pipeline {

class Executor {
 public:
  Executor(std::size_t threads, std::size_t most_queued);
  /// Runs what is queued, then ends.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// False where the queue is full; `task` is not run then. Tasks must not throw.
  bool Submit(std::function<void()> task);
  /// Tasks that wait for a thread.
  std::size_t queued() const;

 private:
  void Loop();

  const std::size_t most_queued_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace fulcrum::pipeline
