#include "pipeline/services/reply_sender.h"

#include <utility>

namespace fulcrum::pipeline {

ReplySender::ReplySender() : thread_([this] { Loop(); }) {}

ReplySender::~ReplySender() {
  const std::scoped_lock lock(mutex_);
  ending_ = true;
  posted_.notify_one();
}

void ReplySender::Post(std::function<void()> reply) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    first = replies_.empty();
    replies_.push_back(std::move(reply));
  }
  // Otherwise it has been woken, or looks again before it sleeps.
  if (first) posted_.notify_one();
}

void ReplySender::Loop() {
  std::vector<std::function<void()>> sending;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return ending_ || !replies_.empty(); });
      if (replies_.empty()) return;
      sending.swap(replies_);
    }
    for (auto& reply : sending) {
      reply();
      reply = nullptr;  // what it holds may be waited for
    }
    sending.clear();
  }
}

}  // namespace fulcrum::pipeline
