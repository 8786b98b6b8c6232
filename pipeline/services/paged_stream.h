// A stream of messages from the server at the pace of whoever reads it.
//
// Messages are made a page at a time, on a thread of the executor, and only when all before them are written: a reader
// that is slow or has stopped holds a page in memory and no thread. Deletes itself when gRPC is done with it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/services/executor.h"
#include "pipeline/services/grpc_status.h"

namespace fulcrum::pipeline {

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

}  // namespace fulcrum::pipeline
