#include <utility>

#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/server/streams/bidirectional_streams.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

absl::StatusOr<std::vector<v1::OfferAnswer>> OfferTo(const absl::StatusOr<std::shared_ptr<Campaign>>& campaign,
                                                     OfferRequest request) {
  FULCRUM_RETURN_IF_ERROR(CheckRequest(request.request_id, 0));
  FULCRUM_RETURN_IF_ERROR(campaign.status());
  return (*campaign)->OfferItems(request);
}

OfferStream* OfferStream::Begin(Parts parts) {
  const std::shared_ptr<OfferStream> stream(new OfferStream(std::move(parts)));
  stream->self_ = stream;
  const StreamCaller& caller = stream->parts_.caller;
  stream->open_ = caller.access.NoteStream(caller.caller, [weak = std::weak_ptr(stream)](const absl::Status& why) {
    if (const auto revoked = weak.lock()) revoked->Stop(why);
  });
  stream->ReadMore();
  return stream.get();
}

OfferStream* OfferStream::Refuse(Parts parts, const absl::Status& status) {
  const std::shared_ptr<OfferStream> stream(new OfferStream(std::move(parts)));
  stream->self_ = stream;
  stream->ended_ = true;
  stream->Finish(ToGrpcStatus(status));
  return stream.get();
}

void OfferStream::ReadMore() {
  absl::Status why;
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    if (stop_.ok()) {
      busy_ = false;
      return StartRead(&incoming_);
    }
    why = stop_;
  }
  End(why);
}

void OfferStream::OnReadDone(bool ok) {
  absl::Status why;
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    busy_ = true;
    why = stop_;
  }
  // The client has sent all, or has gone.
  if (!ok || !why.ok()) return End(why);
  if (!parts_.executor.Submit([self = shared_from_this()] { self->Carry(); })) End(Executor::Busy());
}

void OfferStream::Carry() {
  const absl::Status status = RunGuarded([this] { return Take(); });
  if (!status.ok()) return End(status);
  StartWrite(&outgoing_);
}

absl::Status OfferStream::Take() {
  FULCRUM_RETURN_IF_ERROR(parts_.caller.access.CheckToken(parts_.caller.caller));
  FULCRUM_RETURN_IF_ERROR(parts_.caller.access.AdmitMessage(parts_.caller.caller));
  FULCRUM_RETURN_IF_ERROR(CheckNumbers(incoming_));
  if (campaign_.empty()) campaign_ = incoming_.campaign();
  if (!incoming_.campaign().empty() && incoming_.campaign() != campaign_) {
    return absl::InvalidArgumentError("the stream has begun with another campaign; begin one for each");
  }
  outgoing_.Clear();
  outgoing_.set_request_id(incoming_.request_id());
  FULCRUM_ASSIGN_OR_RETURN(auto answers,
                           OfferTo(parts_.find(campaign_), {.by = parts_.by,
                                                            .request_id = incoming_.request_id(),
                                                            .items = std::move(*incoming_.mutable_items()),
                                                            .feature_names = incoming_.feature_names()}));
  for (v1::OfferAnswer& answer : answers) *outgoing_.add_answers() = std::move(answer);
  return absl::OkStatus();
}

void OfferStream::OnWriteDone(bool ok) {
  if (!ok) return End(absl::CancelledError("the client has gone"));
  ReadMore();
}

void OfferStream::OnCancel() {
  const std::scoped_lock lock(mutex_);
  // The read or write that is out fails, and ends the stream.
  stop_.Update(absl::CancelledError("the client has gone"));
}

void OfferStream::OnDone() {
  open_ = {};
  const std::shared_ptr<OfferStream> last = std::move(self_);
}

void OfferStream::Stop(const absl::Status& why) {
  {
    const std::scoped_lock lock(mutex_);
    stop_.Update(why);
    if (busy_) return;
  }
  End(why);
}

void OfferStream::End(const absl::Status& status) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(ended_, true)) return;
  }
  parts_.on_end(campaign_, status);
  Finish(ToGrpcStatus(status));
}

}  // namespace fulcrum::pipeline
