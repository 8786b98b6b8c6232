#include <unistd.h>

#include "clients/python/core/core_module.h"

namespace fulcrum::python {
namespace {

struct IdleThreads {
  std::mutex mutex;
  std::vector<std::shared_ptr<CallThread>> threads;
  pid_t process = getpid();
};

/// Never destroyed: threads may wait until the process ends.
IdleThreads& Idle() {
  static auto* const idle = new IdleThreads;
  return *idle;
}

}  // namespace

std::shared_ptr<CallThread> CallThread::Take() {
  {
    IdleThreads& idle = Idle();
    const std::scoped_lock lock(idle.mutex);
    if (idle.process != getpid()) {
      idle.threads.clear();
      idle.process = getpid();
    }
    if (!idle.threads.empty()) {
      std::shared_ptr<CallThread> thread = std::move(idle.threads.back());
      idle.threads.pop_back();
      return thread;
    }
  }
  const std::shared_ptr<CallThread> thread(new CallThread);
  std::thread([thread] { thread->Loop(); }).detach();
  return thread;
}

void CallThread::Return(std::shared_ptr<CallThread> thread) {
  IdleThreads& idle = Idle();
  const std::scoped_lock lock(idle.mutex);
  if (idle.process == getpid()) idle.threads.push_back(std::move(thread));
}

void CallThread::Post(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    job_ = std::move(job);
  }
  posted_.notify_one();
}

void CallThread::Loop() {
  while (true) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [&] { return job_ != nullptr; });
      job = std::exchange(job_, nullptr);
    }
    job();
  }
}

}  // namespace fulcrum::python
