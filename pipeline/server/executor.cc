#include "pipeline/server/executor.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kRetryDelay{500};

/// Runs work whose errors are not reported.
void RunLogged(const std::function<void()>& task) {
  const absl::Status status = RunGuarded([&task] {
    task();
    return absl::OkStatus();
  });
  if (!status.ok()) {
    Log(LogLevel::kError, "task failed with an exception", {{"reason", std::string(status.message())}});
  }
}

}  // namespace

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
  return Push(std::move(task), most_queued_);
}

bool Executor::SubmitNext(std::function<void()> task) {
  return Push(std::move(task), SIZE_MAX);
}

bool Executor::Push(std::function<void()> task, std::size_t most_queued) {
  {
    const std::scoped_lock lock(mutex_);
    if (ending_ || tasks_.size() >= most_queued) return false;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return true;
}

absl::Status Executor::Busy() {
  return WithRetryDelay(absl::ResourceExhaustedError("the server is busy; try again"), kRetryDelay);
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
    RunLogged(task);
  }
}

ReplySender::ReplySender() : thread_([this] { Loop(); }) {}

ReplySender::~ReplySender() {
  const std::scoped_lock lock(mutex_);
  ending_ = true;
  posted_.notify_one();
}

void ReplySender::Post(Reply reply, storage::Turn turn) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    first = idle();
    (turn == storage::Turn::kUrgent ? urgent_ : in_order_).push_back(std::move(reply));
  }
  // Otherwise it has been woken, or looks again before it sleeps.
  if (first) posted_.notify_one();
}

ReplySender::Reply ReplySender::TakeNext() {
  std::deque<Reply>& line = urgent_.empty() ? in_order_ : urgent_;
  Reply next = std::move(line.front());
  line.pop_front();
  return next;
}

void ReplySender::Loop() {
  for (;;) {
    Reply next;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return ending_ || !idle(); });
      if (idle()) return;
      next = TakeNext();
    }
    RunLogged(next);
  }
}

}  // namespace fulcrum::pipeline
