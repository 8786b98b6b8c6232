// Workers who asked for tasks when there were none, and wait.
//
// A waiter is woken when its campaign has changed so that there may be something for it, in the order they came and no
// more of them than there are tasks; and at the latest when its time is up. Waking runs on a thread of its own, never
// on the store's. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace fulcrum::pipeline {

/// Why a waiter was woken.
enum class Wake { kTask, kTimeUp, kStopping };

class TaskWaiters {
 public:
  using Clock = std::chrono::steady_clock;
  /// How many waiters a campaign may have use for now.
  using OpenTasks = std::function<std::size_t(const std::string& campaign)>;

  explicit TaskWaiters(OpenTasks open_tasks);
  /// Stops, where that was not done.
  ~TaskWaiters();
  TaskWaiters(const TaskWaiters&) = delete;
  TaskWaiters& operator=(const TaskWaiters&) = delete;

  /// `woken` is called once, on another thread or at once. One that was woken in vain waits again with `again`, and is
  /// not woken for what it has just looked at.
  void Wait(const std::string& campaign, Clock::time_point until, bool again, std::function<void(Wake)> woken);
  /// Something changed in a campaign; cheap, and never blocks.
  void Notify(const std::string& campaign);
  /// Those who wait now, of all campaigns.
  std::size_t waiting() const;
  /// Wakes everybody, and from then on whoever wants to wait.
  void Stop();

 private:
  struct Waiter {
    Clock::time_point until = {};
    std::function<void(Wake)> woken = {};
  };
  struct Call {
    std::function<void(Wake)> woken = {};
    Wake why = Wake::kTask;
  };

  void Loop(const std::stop_token& stop);
  void NotifyAll();
  void TakeTimedOut(std::vector<Call>& calls);
  void TakeNotified(std::vector<Call>& calls);
  Clock::time_point NextTime() const;

  const OpenTasks open_tasks_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::unordered_map<std::string, std::list<Waiter>> waiters_;
  std::vector<std::string> notified_;
  bool wake_ = false;
  bool stopped_ = false;
  std::jthread thread_;
};

}  // namespace fulcrum::pipeline
