#include <algorithm>
#include <utility>

#include "pipeline/server/labeling_service.h"

namespace fulcrum::pipeline {
namespace {

// Every waiter looks again after this time, whatever was notified: tasks that one waiter may not take may suit another.
constexpr std::chrono::seconds kLookAgain{1};

}  // namespace

TaskWaiters::TaskWaiters(OpenTasks open_tasks)
    : open_tasks_(std::move(open_tasks)), thread_([this](const std::stop_token& stop) { Loop(stop); }) {}

TaskWaiters::~TaskWaiters() {
  Stop();
}

void TaskWaiters::Stop() {
  std::unordered_map<std::string, std::list<Waiter>> left;
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    left.swap(waiters_);
  }
  thread_.request_stop();
  thread_.join();
  for (auto& [campaign, waiting] : left) {
    for (Waiter& waiter : waiting) waiter.woken(Wake::kStopping);
  }
}

void TaskWaiters::Wait(const std::string& campaign, Clock::time_point until, bool again,
                       std::function<void(Wake)> woken) {
  {
    std::unique_lock lock(mutex_);
    if (stopped_) {
      lock.unlock();
      return woken(Wake::kStopping);
    }
    waiters_[campaign].push_back({.until = until, .woken = std::move(woken)});
    if (again) return;
    // What this waiter missed may have happened between its question and now.
    notified_.push_back(campaign);
    wake_ = true;
  }
  changed_.notify_one();
}

void TaskWaiters::Notify(const std::string& campaign) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = waiters_.find(campaign);
    if (found == waiters_.end() || found->second.empty()) return;
    notified_.push_back(campaign);
    wake_ = true;
  }
  changed_.notify_one();
}

void TaskWaiters::NotifyAll() {
  for (const auto& [campaign, waiting] : waiters_) notified_.push_back(campaign);
}

void TaskWaiters::TakeTimedOut(std::vector<Call>& calls) {
  const Clock::time_point now = Clock::now();
  for (auto& [campaign, waiting] : waiters_) {
    for (auto waiter = waiting.begin(); waiter != waiting.end();) {
      if (waiter->until > now) {
        ++waiter;
        continue;
      }
      calls.push_back({.woken = std::move(waiter->woken), .why = Wake::kTimeUp});
      waiter = waiting.erase(waiter);
    }
  }
}

void TaskWaiters::TakeNotified(std::vector<Call>& calls) {
  std::sort(notified_.begin(), notified_.end());
  notified_.erase(std::unique(notified_.begin(), notified_.end()), notified_.end());
  for (const std::string& campaign : notified_) {
    std::list<Waiter>& waiting = waiters_[campaign];
    std::size_t open = open_tasks_(campaign);
    for (; open > 0 && !waiting.empty(); --open) {
      calls.push_back({.woken = std::move(waiting.front().woken), .why = Wake::kTask});
      waiting.pop_front();
    }
  }
  notified_.clear();
}

TaskWaiters::Clock::time_point TaskWaiters::NextTime() const {
  Clock::time_point next = Clock::now() + kLookAgain;
  for (const auto& [campaign, waiting] : waiters_) {
    for (const Waiter& waiter : waiting) next = std::min(next, waiter.until);
  }
  return next;
}

std::size_t TaskWaiters::waiting() const {
  const std::scoped_lock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [campaign, waiters] : waiters_) count += waiters.size();
  return count;
}

void TaskWaiters::Loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<Call> calls;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, stop, NextTime(), [this] { return wake_; })) NotifyAll();
      wake_ = false;
      TakeNotified(calls);
      TakeTimedOut(calls);
      // Campaigns come and go.
      std::erase_if(waiters_, [](const auto& entry) { return entry.second.empty(); });
    }
    for (const Call& call : calls) call.woken(call.why);
  }
}

}  // namespace fulcrum::pipeline
