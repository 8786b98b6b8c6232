#include "pipeline/services/work_stream.h"

#include <chrono>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/services/grpc_status.h"
#include "pipeline/services/label_requests.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostUnread = 64;
constexpr int kMostCredit = 1000;
constexpr std::chrono::seconds kWait{30};

std::string NewStreamId() {
  std::random_device random;
  return absl::StrCat("stream-", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

std::int64_t NowSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

WorkStream* WorkStream::Begin(const LabelingService& service, TaskAcquirer& acquirer,
                              grpc::CallbackServerContext& context) {
  std::shared_ptr<WorkStream> stream(new WorkStream(service, acquirer, context));
  stream->self_ = stream;
  stream->id_ = NewStreamId();
  stream->ReadMore();
  return stream.get();
}

void WorkStream::ReadMore() {
  {
    const std::scoped_lock lock(mutex_);
    if (reading_ || ended_ || outgoing_.size() >= kMostUnread) return;
    reading_ = true;
  }
  StartRead(&incoming_);
}

void WorkStream::OnReadDone(bool ok) {
  {
    const std::scoped_lock lock(mutex_);
    reading_ = false;
  }
  // The worker has said all it had to say.
  if (!ok) return End(absl::OkStatus());
  const v1::WorkRequest request = std::move(incoming_);
  incoming_.Clear();
  if (call_.campaign == nullptr) {
    Greet(request);
  } else {
    Serve(request);
  }
  ReadMore();
  FillCredit();
}

void WorkStream::Greet(const v1::WorkRequest& request) {
  const v1::WorkRequest::Hello& hello = request.hello();
  if (!request.has_hello() || hello.credit() < 1 || hello.credit() > kMostCredit) {
    return End(
        absl::InvalidArgumentError(absl::StrCat("a stream begins with 'hello', with a credit of 1 to ", kMostCredit)));
  }
  absl::StatusOr<LabelingCall> call = service_.Admit(context_, hello.campaign(), hello.annotator());
  if (!call.ok()) return End(call.status());
  call_ = *std::move(call);
  const std::scoped_lock lock(mutex_);
  credit_ = static_cast<std::size_t>(hello.credit());
}

void WorkStream::Serve(const v1::WorkRequest& request) {
  const auto self = shared_from_this();
  switch (request.message_case()) {
    case v1::WorkRequest::kSubmit:
      if (const auto status = CheckRequest(request.submit().request_id(), request.submit().labels_size()); !status.ok())
        return End(status);
      return SubmitLabels(*call_.campaign, call_.annotator, request.submit(),
                          [self, request](v1::SubmitLabelsResponse answer) {
                            for (const v1::Label& label : request.submit().labels())
                              self->Return(label.lease().lease_id());
                            v1::WorkResponse response;
                            *response.mutable_submitted() = std::move(answer);
                            self->Send(std::move(response));
                          });
    case v1::WorkRequest::kSkip:
      if (const auto status = CheckRequest(request.skip().request_id(), request.skip().skips_size()); !status.ok())
        return End(status);
      return SkipTasks(*call_.campaign, call_.annotator, request.skip(), [self, request](v1::SkipTasksResponse answer) {
        for (const v1::Skip& skip : request.skip().skips()) self->Return(skip.lease().lease_id());
        v1::WorkResponse response;
        *response.mutable_skipped() = std::move(answer);
        self->Send(std::move(response));
      });
    case v1::WorkRequest::kRelease:
      if (const auto status = CheckRequest(request.release().request_id(), request.release().leases_size());
          !status.ok())
        return End(status);
      return ReleaseTasks(*call_.campaign, call_.annotator, request.release(),
                          [self, request](v1::ReleaseTasksResponse answer) {
                            for (const v1::LeaseRef& lease : request.release().leases()) self->Return(lease.lease_id());
                            v1::WorkResponse response;
                            *response.mutable_released() = std::move(answer);
                            self->Send(std::move(response));
                          });
    case v1::WorkRequest::kRenew:
      if (const auto status = CheckRequest(request.renew().request_id(), request.renew().leases_size()); !status.ok())
        return End(status);
      return RenewLeases(*call_.campaign, call_.annotator, request.renew(), [self](v1::RenewLeasesResponse answer) {
        v1::WorkResponse response;
        *response.mutable_renewed() = std::move(answer);
        self->Send(std::move(response));
      });
    default:
      return End(absl::InvalidArgumentError("after 'hello' a message says submit, skip, release or renew"));
  }
}

void WorkStream::Return(std::int64_t lease) {
  {
    const std::scoped_lock lock(mutex_);
    out_.erase(lease);
  }
  FillCredit();
}

std::size_t WorkStream::OutNow() {
  const std::int64_t now = NowSeconds();
  std::erase_if(out_, [now](const auto& entry) { return entry.second < now; });
  return out_.size();
}

void WorkStream::FillCredit() {
  AcquireCall question;
  {
    const std::scoped_lock lock(mutex_);
    if (ended_ || asking_ || credit_ == 0 || outgoing_.size() >= kMostUnread) return;
    const std::size_t out = OutNow();
    if (out >= credit_) return;
    asking_ = true;
    question.most = static_cast<std::int64_t>(credit_ - out);
    question.request_id = absl::StrCat(id_, "-", ++questions_);
  }
  question.campaign = call_.campaign;
  question.annotator = call_.annotator;
  question.until = TaskWaiters::Clock::now() + kWait;
  const auto self = shared_from_this();
  question.gone = [self] {
    const std::scoped_lock lock(self->mutex_);
    return self->ended_;
  };
  acquirer_.Acquire(std::move(question),
                    [self](absl::StatusOr<v1::AcquireTasksResponse> answer) { self->TakeTasks(std::move(answer)); });
}

void WorkStream::TakeTasks(absl::StatusOr<v1::AcquireTasksResponse> answer) {
  bool over = false;
  {
    const std::scoped_lock lock(mutex_);
    asking_ = false;
    over = answer.ok() && answer->campaign_over();
    if (over) credit_ = 0;
    if (answer.ok()) {
      for (const v1::Task& task : answer->tasks()) out_.emplace(task.lease_id(), task.expires_at().seconds());
    }
  }
  if (!answer.ok()) {
    if (answer.status().code() != absl::StatusCode::kCancelled) End(answer.status());
    return;
  }
  if (over || answer->tasks_size() > 0) {
    v1::WorkResponse response;
    *response.mutable_tasks() = *std::move(answer);
    Send(std::move(response));
  }
  FillCredit();
}

void WorkStream::Send(v1::WorkResponse response) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    outgoing_.push_back(std::move(response));
    if (outgoing_.size() > 1) return;
    StartWrite(&outgoing_.front());
  }
}

void WorkStream::OnWriteDone(bool ok) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    outgoing_.pop_front();
    if (ok && !outgoing_.empty()) StartWrite(&outgoing_.front());
  }
  if (!ok) return End(absl::CancelledError("the worker has gone"));
  ReadMore();
  FillCredit();
}

void WorkStream::OnCancel() {
  End(absl::CancelledError("the worker has gone"));
}

void WorkStream::End(const absl::Status& status) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(ended_, true)) return;
  }
  Finish(ToGrpcStatus(status));
}

void WorkStream::OnDone() {
  // What the store still answers holds the stream; gRPC no longer does.
  const std::shared_ptr<WorkStream> last = std::move(self_);
}

}  // namespace fulcrum::pipeline
