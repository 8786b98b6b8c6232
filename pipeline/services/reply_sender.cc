#include "pipeline/services/reply_sender.h"

#include <utility>

namespace fulcrum::pipeline {

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
    (turn == storage::Turn::kSoon ? soon_ : in_order_).push_back(std::move(reply));
  }
  // Otherwise it has been woken, or looks again before it sleeps.
  if (first) posted_.notify_one();
}

ReplySender::Reply ReplySender::TakeNext() {
  std::deque<Reply>& line = soon_.empty() ? in_order_ : soon_;
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
    next();
  }
}

}  // namespace fulcrum::pipeline
