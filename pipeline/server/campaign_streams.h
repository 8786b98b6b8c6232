// CampaignService.AppendItems: gathers what a client sends, then lets the campaign take it in.
//
// Thin, and never with more than one chunk in memory. Works on threads of the executor, because disks and checks take
// their time. Deletes itself when gRPC is done with it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "fulcrum/v1/labeling_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/server/executor.h"
#include "pipeline/text/status.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/label_export.h"

namespace fulcrum::pipeline {

class AppendStream final : public grpc::ServerReadReactor<v1::AppendItemsRequest> {
 public:
  /// Finds the campaign that a request names.
  using FindCampaign = std::function<absl::StatusOr<std::shared_ptr<Campaign>>(const std::string& name)>;

  /// The executor and the response must outlive the stream. `by` is who appends.
  static AppendStream* Begin(Executor& executor, FindCampaign find, std::string by, v1::AppendItemsResponse* response);
  /// A stream that says only why nothing can be appended.
  static AppendStream* Refuse(Executor& executor, const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  AppendStream(Executor& executor, FindCampaign find, std::string by, v1::AppendItemsResponse* response)
      : executor_(executor), find_(std::move(find)), by_(std::move(by)), response_(response) {}

  void End(const absl::Status& status);
  absl::Status TakePart();
  absl::Status BeginUpload(const v1::AppendItemsRequest::Begin& begin);
  absl::Status TakeIn();

  Executor& executor_;
  const FindCampaign find_;
  const std::string by_;
  v1::AppendItemsResponse* const response_;
  v1::AppendItemsRequest incoming_;  // where gRPC reads into
  std::string request_id_;
  std::shared_ptr<Campaign> campaign_;
  std::unique_ptr<RowUpload> upload_;
  bool complete_ = false;
  std::atomic<bool> cancelled_ = false;
};

// A stream of messages from the server, fed from any thread.
//
// For news, which cannot be fetched when there is room (paged_stream.h is for what can): messages wait in a bounded
// queue, and what happens when it is full is up to whoever feeds it. The stream ends with a status, or when the client
// leaves, of which it tells. It deletes itself when gRPC is done with it, so whoever feeds
// it holds a MessageFeed, which outlives it. Thread-safe.

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

// A stream of messages from the server at the pace of whoever reads it.
//
// Messages are made a page at a time, on a thread of the executor, and only when all before them are written: a reader
// that is slow or has stopped holds a page in memory and no thread. Deletes itself when gRPC is done with it.

template <typename Message>
class PagedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  using Page = std::vector<Message>;
  /// The next messages; none at the end. Never called twice at a time.
  using NextPage = std::function<absl::StatusOr<Page>()>;

  /// The executor must outlive the stream.
  static PagedStream* Begin(Executor& executor, NextPage next_page) {
    auto* stream = new PagedStream(executor, std::move(next_page));
    stream->Fetch();
    return stream;
  }
  /// A stream that says only why there is none.
  static PagedStream* Refuse(Executor& executor, const absl::Status& status) {
    auto* stream = new PagedStream(executor, {});
    stream->Finish(ToGrpcStatus(status));
    return stream;
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return this->Finish(ToGrpcStatus(Gone()));
    if (++written_ < page_.size()) return this->StartWrite(&page_[written_]);
    Fetch();
  }
  // At any time either a write or a fetch is under way, and its end finishes the stream.
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  PagedStream(Executor& executor, NextPage next_page) : executor_(executor), next_page_(std::move(next_page)) {}

  static absl::Status Gone() { return absl::CancelledError("the client has gone"); }

  void Fetch() {
    if (executor_.Submit([this] { Write(next_page_()); })) return;
    this->Finish(ToGrpcStatus(Executor::Busy()));
  }
  void Write(absl::StatusOr<Page> page) {
    if (cancelled_) return this->Finish(ToGrpcStatus(Gone()));
    if (!page.ok() || page->empty()) return this->Finish(ToGrpcStatus(page.status()));
    page_ = *std::move(page);
    written_ = 0;
    this->StartWrite(&page_.front());
  }

  Executor& executor_;
  const NextPage next_page_;
  Page page_;
  std::size_t written_ = 0;
  std::atomic<bool> cancelled_ = false;
};

// What long streams send, a page at a time: every label, a model's file, a payload.
//
// Each belongs to one stream and is used by one thread at a time. An empty page is the end.

/// The labels of a campaign, in the order they were given.
class LabelPages {
 public:
  explicit LabelPages(std::string folder) : folder_(std::move(folder)) {}
  absl::StatusOr<std::vector<v1::ExportLabelsResponse>> Next();

 private:
  const std::string folder_;
  std::unique_ptr<storage::CampaignReader> reader_;
  std::optional<storage::LabelPager> pager_;
};

/// The payload of an example.
class PayloadPages {
 public:
  PayloadPages(std::shared_ptr<Campaign> campaign, std::string item)
      : campaign_(std::move(campaign)), item_(std::move(item)) {}
  absl::StatusOr<std::vector<v1::GetPayloadResponse>> Next();

 private:
  std::shared_ptr<Campaign> campaign_;  // until the payload is read
  const std::string item_;
  std::string bytes_;
  std::size_t sent_ = 0;
};

/// A model: its description, then its file.
class ModelPages {
 public:
  /// Round 0 is the latest model's.
  ModelPages(std::shared_ptr<Campaign> campaign, std::int64_t round) : campaign_(std::move(campaign)), round_(round) {}
  absl::StatusOr<std::vector<v1::GetModelResponse>> Next();

 private:
  absl::StatusOr<v1::GetModelResponse> Describe();

  std::shared_ptr<Campaign> campaign_;  // until the file is read
  const std::int64_t round_;
  std::string bytes_;
  std::size_t sent_ = 0;
};

}  // namespace fulcrum::pipeline
