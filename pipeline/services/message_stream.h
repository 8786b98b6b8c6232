// A stream of messages from the server, fed from any thread.
//
// For news, which cannot be fetched when there is room (paged_stream.h is for what can): messages wait in a bounded
// queue, and what happens when it is full is up to whoever feeds it. The stream ends with a status, or when the client
// leaves, of which it tells. It deletes itself when gRPC is done with it, so whoever feeds
// it holds a MessageFeed, which outlives it. Thread-safe.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "pipeline/services/grpc_status.h"

namespace fulcrum::pipeline {

template <typename Message>
class MessageStream;

template <typename Message>
class MessageFeed {
 public:
  static constexpr std::size_t kMostQueued = 1024;

  /// False where the queue is full. What comes after the end is dropped.
  bool Offer(Message message) {
    const std::scoped_lock lock(mutex_);
    if (over_ || ending_) return true;
    if (queue_.size() >= kMostQueued) return false;
    Push(std::move(message));
    return true;
  }
  /// Ends the stream after what is queued.
  void End(const absl::Status& status) {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(ending_, true) || over_) return;
    status_ = status;
    if (queue_.empty()) Finish();
  }

 private:
  friend class MessageStream<Message>;

  void Push(Message message) {
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) stream_->StartWrite(&queue_.front());
  }
  void Finish() {
    if (!std::exchange(over_, true)) stream_->Finish(ToGrpcStatus(status_));
  }
  void WriteDone(bool ok) {
    const std::scoped_lock lock(mutex_);
    queue_.pop_front();
    if (over_) return;
    if (!ok) {
      status_ = absl::CancelledError("the client has gone");
      return Finish();
    }
    if (!queue_.empty()) return stream_->StartWrite(&queue_.front());
    if (ending_) Finish();
  }
  void Cancel() {
    const std::scoped_lock lock(mutex_);
    status_ = absl::CancelledError("the client has gone");
    Finish();
  }

  std::mutex mutex_;
  std::deque<Message> queue_;  // the first is being written
  absl::Status status_;
  bool ending_ = false;
  bool over_ = false;
  MessageStream<Message>* stream_ = nullptr;  // valid until over_
};

template <typename Message>
class MessageStream final : public grpc::ServerWriteReactor<Message> {
 public:
  /// `on_end` is called when the last message is written or the client has gone, before the stream goes.
  explicit MessageStream(std::function<void()> on_end = {}) : on_end_(std::move(on_end)) { feed_->stream_ = this; }

  std::shared_ptr<MessageFeed<Message>> feed() const { return feed_; }
  void set_on_end(std::function<void()> on_end) { on_end_ = std::move(on_end); }

  void OnWriteDone(bool ok) override { feed_->WriteDone(ok); }
  void OnCancel() override { feed_->Cancel(); }
  void OnDone() override {
    if (on_end_) on_end_();
    delete this;
  }

 private:
  const std::shared_ptr<MessageFeed<Message>> feed_ = std::make_shared<MessageFeed<Message>>();
  std::function<void()> on_end_;
};

}  // namespace fulcrum::pipeline
