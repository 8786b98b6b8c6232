// Streams of the services: what clients upload, and what they read.
//
// Work that takes its time (disks, checks) runs on threads of an executor. A stream ends at once if its caller's token
// is revoked, and always ends: what its work throws becomes its status. Streams live until gRPC is done with them.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "fulcrum/v1/labeling_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/executor.h"
#include "pipeline/text/status.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"

namespace fulcrum::pipeline {

/// Who opened a stream, and who says whether they still may.
struct StreamCaller {
  const AccessControl& access;
  Caller caller = {};
};

// A stream of messages from a client, such as the parts of a file.
//
// Messages are taken one after the other, on threads of the executor. It never has more than one message in memory.

template <typename Request>
class UploadStream : public grpc::ServerReadReactor<Request>,
                     public std::enable_shared_from_this<UploadStream<Request>> {
 public:
  /// Starts reading. The stream lives until gRPC is done with it.
  static UploadStream* Begin(std::shared_ptr<UploadStream> stream) {
    UploadStream* const it = stream.get();
    it->self_ = std::move(stream);
    it->open_ =
        it->caller_.access.NoteStream(it->caller_.caller, [weak = it->weak_from_this()](const absl::Status& why) {
          if (const auto revoked = weak.lock()) revoked->Stop(why);
        });
    it->ReadMore();
    return it;
  }

  void OnReadDone(bool ok) override {
    {
      const std::scoped_lock lock(mutex_);
      if (ended_) return;
      busy_ = true;
    }
    const bool taken = executor_.Submit([self = this->shared_from_this(), ok] { self->Carry(ok); });
    if (!taken) End(Executor::Busy());
  }
  void OnCancel() override {
    {
      const std::scoped_lock lock(mutex_);
      // The read that is out fails, and ends the stream.
      stop_.Update(absl::CancelledError("the client has gone"));
    }
    work_.request_stop();
  }
  void OnDone() override {
    open_ = {};
    const std::shared_ptr<UploadStream> last = std::move(self_);
  }

 protected:
  /// All of them must outlive the stream.
  UploadStream(Executor& executor, StreamCaller caller) : executor_(executor), caller_(std::move(caller)) {}

  const StreamCaller& caller() const { return caller_; }
  /// Asks to end what takes its time, because the client has gone or may no longer do it.
  std::stop_token stop_token() const { return work_.get_token(); }

  /// Takes a message; an error ends the stream.
  virtual absl::Status Take(const Request& message) = 0;
  /// The client has sent all, or has gone. Returns the status of the call.
  virtual absl::Status Complete() = 0;
  /// Before the status is sent: the client may begin again at once.
  virtual void Release() = 0;
  /// Ends the stream when nothing works for it any more.
  void Stop(const absl::Status& why) {
    {
      const std::scoped_lock lock(mutex_);
      stop_.Update(why);
    }
    work_.request_stop();
    {
      const std::scoped_lock lock(mutex_);
      if (busy_) return;
    }
    End(why);
  }
  /// After it is known how the call ends.
  virtual void Note(const absl::Status& /*status*/) {}

 private:
  void ReadMore() {
    absl::Status why;
    {
      const std::scoped_lock lock(mutex_);
      if (stop_.ok()) {
        busy_ = false;
        return this->StartRead(&incoming_);
      }
      why = stop_;
    }
    End(why);
  }
  void Carry(bool ok) {
    const absl::Status status = RunGuarded([&]() -> absl::Status {
      {
        const std::scoped_lock lock(mutex_);
        if (!stop_.ok()) return stop_;
      }
      if (const absl::Status known = caller_.access.CheckToken(caller_.caller); !known.ok()) return known;
      return ok ? Take(incoming_) : Complete();
    });
    if (!ok || !status.ok()) return End(status);
    ReadMore();
  }
  void End(const absl::Status& status) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(ended_, true)) return;
    }
    Release();
    Note(status);
    this->Finish(ToGrpcStatus(status));
  }

  Executor& executor_;
  const StreamCaller caller_;
  Request incoming_;  // where gRPC reads into
  std::shared_ptr<UploadStream> self_;
  AccessControl::OpenStream open_;
  std::stop_source work_;

  std::mutex mutex_;
  absl::Status stop_;  // why it must not go on
  bool busy_ = true;   // a message is being taken, or the stream has not begun to read
  bool ended_ = false;
};

/// An upload that says only why nothing can be sent.
template <typename Request>
class RefusedUpload final : public grpc::ServerReadReactor<Request> {
 public:
  explicit RefusedUpload(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

/// CampaignService.AppendItems: gathers what a client sends, then lets the campaign take it in. Listed as an operation
/// meanwhile.
class AppendStream final : public UploadStream<v1::AppendItemsRequest> {
 public:
  /// Finds the campaign that a request names.
  using FindCampaign = std::function<absl::StatusOr<std::shared_ptr<Campaign>>(const std::string& name)>;
  /// Is told how the call ended.
  using OnEnd = std::function<void(const v1::AppendItemsRequest::Begin& begin, const absl::Status& status)>;

  /// The executor, the caller, the operations and the response must outlive the stream. `by` is who appends.
  AppendStream(Executor& executor, StreamCaller caller, FindCampaign find, CampaignOperations& operations,
               std::string by, v1::AppendItemsResponse* response, OnEnd on_end)
      : UploadStream(executor, std::move(caller)),
        find_(std::move(find)),
        operations_(operations),
        by_(std::move(by)),
        response_(response),
        on_end_(std::move(on_end)) {}

 private:
  absl::Status Take(const v1::AppendItemsRequest& message) override;
  absl::Status Complete() override;
  void Release() override;
  void Note(const absl::Status& status) override;
  absl::Status BeginUpload(const v1::AppendItemsRequest::Begin& begin);

  const FindCampaign find_;
  CampaignOperations& operations_;
  const std::string by_;
  v1::AppendItemsResponse* const response_;
  const OnEnd on_end_;
  v1::AppendItemsRequest::Begin begin_;
  std::shared_ptr<Campaign> campaign_;
  std::string operation_;  // its name
  std::unique_ptr<RowUpload> upload_;
  bool complete_ = false;
};

// A stream of messages from the server, fed from any thread.
//
// For events, which cannot be fetched when there is room (PagedStream is for what can): messages wait in a bounded
// queue, and the caller of Offer decides what happens when it is full. The stream ends with a status, or when the
// client leaves, which it reports. It deletes itself when gRPC is done with it, so callers hold a MessageFeed, which
// outlives it. Thread-safe.

template <typename Message>
class MessageStream;

template <typename Message>
class MessageFeed {
 public:
  static constexpr std::size_t kMostQueued = 1024;

  /// False if the queue is full. What comes after the end is dropped.
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

// A stream of messages from the server at the pace of its reader.
//
// Messages are made a page at a time, on a thread of the executor, and only when all before them are written: a reader
// that is slow or has stopped holds a page in memory and no thread.

template <typename Message>
class PagedStream final : public grpc::ServerWriteReactor<Message>,
                          public std::enable_shared_from_this<PagedStream<Message>> {
 public:
  using Page = std::vector<Message>;
  /// The next messages; none at the end. Never called twice at a time.
  using NextPage = std::function<absl::StatusOr<Page>()>;

  /// The executors and the caller's access control must outlive the stream. The first page is made on `first`, if it
  /// takes longer than the others; null: on `executor`, too.
  static PagedStream* Begin(Executor& executor, const StreamCaller& caller, NextPage next_page,
                            Executor* first = nullptr) {
    const std::shared_ptr<PagedStream> stream(new PagedStream(executor, std::move(next_page)));
    stream->self_ = stream;
    stream->open_ = caller.access.NoteStream(caller.caller, [weak = std::weak_ptr(stream)](const absl::Status& why) {
      if (const auto revoked = weak.lock()) revoked->Stop(why);
    });
    Executor& begins = first == nullptr ? executor : *first;
    if (!begins.Submit([stream] { stream->Write(); })) stream->Finish(ToGrpcStatus(Executor::Busy()));
    return stream.get();
  }
  /// A stream that says only why there is none.
  static PagedStream* Refuse(Executor& executor, const absl::Status& status) {
    const std::shared_ptr<PagedStream> stream(new PagedStream(executor, {}));
    stream->self_ = stream;
    stream->Finish(ToGrpcStatus(status));
    return stream.get();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) Stop(absl::CancelledError("the client has gone"));
    if (const absl::Status why = stopped(); !why.ok()) return this->Finish(ToGrpcStatus(why));
    if (++written_ < page_.size()) return this->StartWrite(&page_[written_]);
    Fetch();
  }
  void OnCancel() override { Stop(absl::CancelledError("the client has gone")); }
  void OnDone() override {
    open_ = {};
    const std::shared_ptr<PagedStream> last = std::move(self_);
  }

 private:
  PagedStream(Executor& executor, NextPage next_page) : executor_(executor), next_page_(std::move(next_page)) {}

  // At any time either a write or a fetch is under way, and its end finishes the stream.
  void Stop(const absl::Status& why) {
    const std::scoped_lock lock(mutex_);
    stop_.Update(why);
  }
  absl::Status stopped() {
    const std::scoped_lock lock(mutex_);
    return stop_;
  }
  void Fetch() {
    if (executor_.SubmitNext([self = this->shared_from_this()] { self->Write(); })) return;
    this->Finish(ToGrpcStatus(absl::UnavailableError("the server is stopping; try again later")));
  }
  void Write() {
    const absl::Status status = RunGuarded([this]() -> absl::Status {
      if (const absl::Status why = stopped(); !why.ok()) return why;
      absl::StatusOr<Page> page = next_page_();
      page_ = page.ok() ? *std::move(page) : Page();
      return page.status();
    });
    const absl::Status why = status.ok() ? stopped() : status;
    if (!why.ok() || page_.empty()) return this->Finish(ToGrpcStatus(why));
    written_ = 0;
    this->StartWrite(&page_.front());
  }

  Executor& executor_;
  const NextPage next_page_;
  std::shared_ptr<PagedStream> self_;
  AccessControl::OpenStream open_;
  Page page_;
  std::size_t written_ = 0;
  std::mutex mutex_;
  absl::Status stop_;  // why it must not go on
};

// What long streams send, a page at a time: every label, a model's file, a payload.
//
// Each belongs to one stream and is used by one thread at a time. An empty page is the end.

/// The labels of a campaign, in the order they were given.
class LabelPages {
 public:
  using FindErrors = std::function<absl::StatusOr<storage::LikelyErrors>()>;
  /// `errors` may be null: then those that the log knows of.
  explicit LabelPages(std::string folder, FindErrors errors = nullptr)
      : folder_(std::move(folder)), find_errors_(std::move(errors)) {}
  absl::StatusOr<std::vector<v1::ExportLabelsResponse>> Next();

 private:
  const std::string folder_;
  const FindErrors find_errors_;
  std::unique_ptr<storage::CampaignReader> reader_;
  std::optional<storage::LabelPager> pager_;
};

/// The payload of an example, of which it has a page in memory.
class PayloadPages {
 public:
  using Find = std::function<absl::StatusOr<std::shared_ptr<Campaign>>()>;
  /// Asks for the campaign for every page: a stream that nobody reads must not keep it from being deleted.
  PayloadPages(Find find, std::string item) : find_(std::move(find)), item_(std::move(item)) {}
  absl::StatusOr<std::vector<v1::GetPayloadResponse>> Next();

 private:
  const Find find_;
  const std::string item_;
  std::optional<std::size_t> size_;
  std::size_t sent_ = 0;
};

/// A model: its description, then its file.
class ModelPages {
 public:
  /// Round 0 is the latest model's.
  ModelPages(std::shared_ptr<Campaign> campaign, std::int64_t round, v1::ModelFormat format)
      : campaign_(std::move(campaign)), round_(round), format_(format) {}
  /// Files of this format are read as they are sent; those of the others are made and held in memory.
  static bool ReadsByRange(v1::ModelFormat format) {
    return format == v1::MODEL_FORMAT_UNSPECIFIED || format == v1::MODEL_FORMAT_FULCRUM;
  }
  absl::StatusOr<std::vector<v1::GetModelResponse>> Next();

 private:
  absl::StatusOr<v1::GetModelResponse> Describe();
  absl::StatusOr<std::string> NextChunk();

  std::shared_ptr<Campaign> campaign_;  // until the model is described
  const std::int64_t round_;
  const v1::ModelFormat format_;
  std::string bytes_;   // unless it is read by range
  std::ifstream file_;  // otherwise
  std::size_t size_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace fulcrum::pipeline
