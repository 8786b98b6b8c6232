#include "pipeline/services/executor.h"

#include <utility>

namespace fulcrum::pipeline {

Executor::Executor(std::size_t threads, std::size_t most_queued) : most_queued_(most_queued) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

Executor::~Executor() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

bool Executor::Submit(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (ending_ || tasks_.size() >= most_queued_) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

std::size_t Executor::queued() const {
  const std::scoped_lock lock(mutex_);
  return tasks_.size();
}

void Executor::Loop() {
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace fulcrum::pipeline
