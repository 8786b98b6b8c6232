#include "pipeline/services/append_stream.h"

#include <utility>

#include "pipeline/services/grpc_status.h"
#include "pipeline/services/label_requests.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

AppendStream* AppendStream::Begin(Executor& executor, FindCampaign find, std::string by,
                                  v1::AppendItemsResponse* response) {
  auto* stream = new AppendStream(executor, std::move(find), std::move(by), response);
  stream->StartRead(&stream->incoming_);
  return stream;
}

AppendStream* AppendStream::Refuse(Executor& executor, const absl::Status& status) {
  auto* stream = new AppendStream(executor, {}, "", nullptr);
  stream->End(status);
  return stream;
}

void AppendStream::End(const absl::Status& status) {
  // Before the answer: whoever gets it may append again at once.
  upload_.reset();
  campaign_.reset();
  Finish(ToGrpcStatus(status));
}

void AppendStream::OnReadDone(bool ok) {
  const bool taken = executor_.Submit([this, ok] {
    if (cancelled_) return End(absl::CancelledError("the client has gone"));
    if (!ok) return End(TakeIn());
    if (const absl::Status status = TakePart(); !status.ok()) return End(status);
    StartRead(&incoming_);
  });
  if (!taken) End(Executor::Busy());
}

absl::Status AppendStream::TakePart() {
  if (upload_ == nullptr && incoming_.has_begin()) return BeginUpload(incoming_.begin());
  if (upload_ == nullptr) return absl::InvalidArgumentError("the first message must be 'begin'");
  if (!complete_ && incoming_.has_chunk()) return upload_->Add(incoming_.chunk());
  if (complete_ || !incoming_.end()) {
    return absl::InvalidArgumentError("after 'begin' come messages with a 'chunk', and then one 'end'");
  }
  complete_ = true;
  return absl::OkStatus();
}

absl::Status AppendStream::BeginUpload(const v1::AppendItemsRequest::Begin& begin) {
  FULCRUM_RETURN_IF_ERROR(CheckRequest(begin.request_id(), 0));
  FULCRUM_ASSIGN_OR_RETURN(campaign_, find_(begin.name()));
  request_id_ = begin.request_id();
  FULCRUM_ASSIGN_OR_RETURN(upload_, campaign_->BeginUpload());
  return absl::OkStatus();
}

absl::Status AppendStream::TakeIn() {
  // A client that has gone looks like one that has said all: only 'end' tells them apart.
  if (!complete_) return absl::InvalidArgumentError("the stream ended before 'end'; nothing was appended");
  FULCRUM_RETURN_IF_ERROR(upload_->Finish());
  FULCRUM_ASSIGN_OR_RETURN(
      Appended appended,
      campaign_->AppendItems(
          {.by = by_, .request_id = request_id_, .file = upload_->file(), .checksum = upload_->checksum()}));
  *response_ = std::move(appended.response);
  return absl::OkStatus();
}

}  // namespace fulcrum::pipeline
