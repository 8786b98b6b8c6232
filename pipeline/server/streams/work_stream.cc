#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/server/streams/bidirectional_streams.h"
#include "pipeline/text/status.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kMostUnread = 64;
constexpr std::chrono::seconds kWait{30};
// A worker without tasks is told why soon.
constexpr std::chrono::seconds kFirstWait{2};
constexpr std::size_t kLongestSession = 64;

std::string NewStreamId() {
  std::random_device random;
  return absl::StrCat("stream-", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

std::int64_t SecondsOf(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

std::int64_t LeaseOf(const v1::LeaseRef& lease) {
  return lease.lease_id();
}
std::int64_t LeaseOf(const v1::Label& label) {
  return label.lease().lease_id();
}
std::int64_t LeaseOf(const v1::Skip& skip) {
  return skip.lease().lease_id();
}

template <typename Parts>
std::vector<std::int64_t> LeasesOf(const Parts& parts) {
  std::vector<std::int64_t> leases;
  for (const auto& part : parts) leases.push_back(LeaseOf(part));
  return leases;
}

}  // namespace

WorkStream* WorkStream::Begin(const LabelingService& service, TaskAcquirer& acquirer,
                              grpc::CallbackServerContext& context) {
  std::shared_ptr<WorkStream> stream(new WorkStream(service, acquirer, context));
  stream->self_ = stream;
  stream->id_ = NewStreamId();
  // Before anything is read: a client without a token must not hold a stream by sending nothing.
  auto open = service.AdmitStream(context, [revoked = std::weak_ptr(stream)](const absl::Status& status) {
    if (const auto it = revoked.lock()) it->End(status);
  });
  if (open.ok()) {
    stream->open_ = *std::move(open);
    stream->ReadMore();
  } else {
    stream->End(open.status());
  }
  return stream.get();
}

void WorkStream::ReadMore() {
  {
    const std::scoped_lock lock(mutex_);
    if (reading_ || ended_ || half_closed_ || outgoing_.size() >= kMostUnread) return;
    reading_ = true;
  }
  StartRead(incoming_);
}

void WorkStream::OnReadDone(bool ok) {
  if (!ok) {
    {
      const std::scoped_lock lock(mutex_);
      half_closed_ = true;
      left_ = !context_.IsCancelled();
      credit_ = 0;
    }
    return EndIfDrained();
  }
  if (call_.campaign == nullptr) {
    Greet(*incoming_);
  } else {
    Serve(*incoming_);
  }
  arena_.Reset();
  incoming_ = arena_.New<v1::WorkRequest>();
  {
    // Not earlier: a write that ends on another thread would read the next message over this one.
    const std::scoped_lock lock(mutex_);
    reading_ = false;
  }
  ReadMore();
  FillCredit();
}

void WorkStream::Greet(const v1::WorkRequest& request) {
  const v1::WorkRequest::Hello& hello = request.hello();
  if (!request.has_hello()) return End(absl::InvalidArgumentError("the first message of a stream must be 'hello'"));
  if (const absl::Status status = CheckNumbers(request); !status.ok()) return End(status);
  if (hello.session_id().size() > kLongestSession) {
    return End(
        absl::InvalidArgumentError(absl::StrCat("'session_id' must have at most ", kLongestSession, " characters")));
  }
  absl::StatusOr<LabelingCall> call = service_.Admit(context_, hello.campaign(), hello.annotator());
  if (!call.ok()) return End(call.status());
  call_ = *std::move(call);
  const std::int64_t watch = call_.campaign->events().Watch(INT64_MAX, {}, [stream = weak_from_this()] {
    if (const auto it = stream.lock()) {
      it->End(absl::UnavailableError("the daemon is stopping, or the campaign is being deleted"));
    }
  });
  {
    const std::scoped_lock lock(mutex_);
    watch_ = watch;
    resumable_ = !hello.session_id().empty();
    if (!resumable_) credit_ = static_cast<std::size_t>(hello.credit());
  }
  if (hello.session_id().empty()) return;
  id_ = absl::StrCat(hello.session_id(), "/", id_);
  const std::size_t credit = static_cast<std::size_t>(hello.credit());
  call_.campaign->store().Start(
      storage::FindSessionLeases, {.annotator = call_.annotator, .session = hello.session_id() + "/"},
      [self = shared_from_this(), credit](absl::StatusOr<std::vector<storage::GrantedLease>> leases) {
        if (!leases.ok()) return self->End(leases.status());
        self->service_.replies().Post([self, credit, taken = TakenTasks{.leases = *std::move(leases)}] {
          {
            const std::scoped_lock lock(self->mutex_);
            if (!self->half_closed_) self->credit_ = credit;
          }
          if (!taken.leases.empty()) self->SendTasks(taken);
          self->FillCredit();
        });
      });
}

template <typename Request, typename Act, typename Answer>
void WorkStream::Carry(const Request& request, int parts, const std::vector<std::int64_t>& ended_leases, Act act,
                       Answer answer_of) {
  if (const auto status = CheckRequest(request.request_id(), parts); !status.ok()) return End(status);
  const Outgoing response = NewResponse();
  {
    const std::scoped_lock lock(mutex_);
    ++pending_;
  }
  act({.campaign = *call_.campaign, .annotator = call_.annotator, .replies = service_.replies()}, request,
      *(response.message->*answer_of)(), [self = shared_from_this(), response] { self->SendAnswer(response); });
  Return(ended_leases);
}

void WorkStream::SendAnswer(const Outgoing& response) {
  Send(response);
  {
    const std::scoped_lock lock(mutex_);
    --pending_;
  }
  EndIfDrained();
}

void WorkStream::CarryRenewal(const v1::RenewLeasesRequest& request) {
  const auto renew = [self = shared_from_this(), leases = LeasesOf(request.leases())](
                         const LabelRequester& requester, const v1::RenewLeasesRequest& asked,
                         v1::RenewLeasesResponse& response, std::function<void()> done) {
    RenewLeases(requester, asked, response, [self, leases, &response, done = std::move(done)] {
      self->NoteRenewals(leases, response);
      done();
    });
  };
  Carry(request, request.leases_size(), {}, renew, &v1::WorkResponse::mutable_renewed);
}

void WorkStream::NoteRenewals(const std::vector<std::int64_t>& leases, const v1::RenewLeasesResponse& response) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = 0; i < leases.size(); ++i) {
    const auto& result = response.results(static_cast<int>(i));
    const auto found = out_.find(leases[i]);
    if (found == out_.end()) continue;
    if (result.status().code() == 0) found->second = result.expires_at().seconds();
    if (result.status().code() == static_cast<int>(absl::StatusCode::kAborted)) out_.erase(found);
  }
}

void WorkStream::Serve(const v1::WorkRequest& request) {
  if (const absl::Status status = service_.AdmitMessage(call_); !status.ok()) return End(status);
  if (const absl::Status status = CheckNumbers(request); !status.ok()) return End(status);
  using Response = v1::WorkResponse;
  switch (request.message_case()) {
    case v1::WorkRequest::kSubmit: {
      const auto& labels = request.submit().labels();
      return Carry(request.submit(), labels.size(), LeasesOf(labels), SubmitLabels, &Response::mutable_submitted);
    }
    case v1::WorkRequest::kSkip: {
      const auto& skips = request.skip().skips();
      return Carry(request.skip(), skips.size(), LeasesOf(skips), SkipTasks, &Response::mutable_skipped);
    }
    case v1::WorkRequest::kRelease: {
      const auto& leases = request.release().leases();
      return Carry(request.release(), leases.size(), LeasesOf(leases), ReleaseTasks, &Response::mutable_released);
    }
    case v1::WorkRequest::kRenew:
      return CarryRenewal(request.renew());
    case v1::WorkRequest::kChange:
      return Carry(request.change(), request.change().changes_size(), {}, ChangeLabels, &Response::mutable_changed);
    default:
      return End(absl::InvalidArgumentError("after 'hello' a message says submit, skip, release, renew or change"));
  }
}

void WorkStream::Return(const std::vector<std::int64_t>& leases) {
  const std::scoped_lock lock(mutex_);
  for (const std::int64_t lease : leases) out_.erase(lease);
}

void WorkStream::ForgetExpired() {
  // As the store counts it, which is where the leases end.
  const std::int64_t now = SecondsOf(call_.campaign->store().Now());
  std::erase_if(out_, [now](const auto& entry) { return entry.second < now; });
}

void WorkStream::FillCredit() {
  AcquireCall question;
  bool first = false;
  bool told = false;
  {
    const std::scoped_lock lock(mutex_);
    if (ended_ || asking_ || credit_ == 0 || outgoing_.size() >= kMostUnread) return;
    if (out_.size() >= credit_) ForgetExpired();
    if (out_.size() >= credit_) return;
    asking_ = true;
    first = questions_ == 0;
    told = !told_.empty();
    question.most = static_cast<std::int64_t>(credit_ - out_.size());
    question.request_id = absl::StrCat(id_, "-", ++questions_);
  }
  question.campaign = call_.campaign;
  question.annotator = call_.annotator;
  // Right behind what was answered, so that both are in one commit; there is nothing to be behind at first.
  question.turn = first ? storage::Turn::kUrgent : storage::Turn::kInOrder;
  question.until = TaskWaiters::Clock::now() + (told ? kWait : kFirstWait);
  const auto self = shared_from_this();
  question.gone = [self] {
    const std::scoped_lock lock(self->mutex_);
    return self->ended_ || self->half_closed_;
  };
  acquirer_.Acquire(std::move(question), [self](const absl::StatusOr<TakenTasks>& taken) { self->TakeTasks(taken); });
}

void WorkStream::TakeTasks(const absl::StatusOr<TakenTasks>& taken) {
  bool ended = false;
  {
    const std::scoped_lock lock(mutex_);
    asking_ = false;
    // A worker that has sent all takes no more tasks.
    ended = ended_ || half_closed_;
    if (taken.ok() && taken->campaign_over) credit_ = 0;
  }
  if (!taken.ok()) {
    if (taken.status().code() != absl::StatusCode::kCancelled) End(taken.status());
    return;
  }
  if (ended) return ReleaseUndelivered(*taken);
  if (taken->worth_telling()) {
    SendTasks(*taken);
  } else {
    SendWaiting();
  }
  FillCredit();
}

void WorkStream::ReleaseUndelivered(const TakenTasks& taken) {
  {
    // A stream that continues the session gets them.
    const std::scoped_lock lock(mutex_);
    if (resumable_ && !left_) return;
  }
  ReleaseTaken(call_.campaign, call_.annotator, taken);
}

void WorkStream::SendTasks(const TakenTasks& taken) {
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& lease : taken.leases) out_.insert_or_assign(lease.lease, SecondsOf(lease.expires_at));
    told_.clear();
  }
  // Payloads may need more memory than there is, and a worker that waits for tasks must not wait for ever.
  const absl::Status sent = RunGuarded([&] {
    // Tasks that were leased one by one can be more than fit into a message.
    for (std::size_t first = 0; first == 0 || first < taken.leases.size();) {
      const Outgoing response = NewResponse();
      first += DescribeTasks(*call_.campaign, taken, first, *response.message->mutable_tasks());
      Send(response);
      if (taken.leases.empty()) break;
    }
    return absl::OkStatus();
  });
  if (!sent.ok()) End(sent);
}

void WorkStream::SendWaiting() {
  const auto tell = [self = shared_from_this()](std::vector<v1::WaitingFor> reasons) {
    std::string text;
    for (const v1::WaitingFor& reason : reasons) absl::StrAppend(&text, reason.text(), "\n");
    {
      const std::scoped_lock lock(self->mutex_);
      if (reasons.empty() || std::exchange(self->told_, text) == text) return;
    }
    self->service_.replies().Post([self, reasons = std::move(reasons)] {
      const Outgoing response = self->NewResponse();
      for (const v1::WaitingFor& reason : reasons) *response.message->mutable_tasks()->add_waiting_for() = reason;
      self->Send(response);
    });
  };
  call_.campaign->DescribeWaiting(tell, call_.annotator);
}

WorkStream::Outgoing WorkStream::NewResponse() const {
  Outgoing response{.arena = service_.arenas().Take()};
  response.message = response.arena->New<v1::WorkResponse>();
  return response;
}

void WorkStream::Send(Outgoing response) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    outgoing_.push_back(std::move(response));
    if (outgoing_.size() > 1) return;
    StartWrite(outgoing_.front().message);
  }
}

void WorkStream::OnWriteDone(bool ok) {
  {
    const std::scoped_lock lock(mutex_);
    if (ended_) return;
    outgoing_.pop_front();
    if (ok && !outgoing_.empty()) StartWrite(outgoing_.front().message);
  }
  if (!ok) return End(absl::CancelledError("the worker has gone"));
  EndIfDrained();
  ReadMore();
  FillCredit();
}

void WorkStream::EndIfDrained() {
  {
    const std::scoped_lock lock(mutex_);
    if (!half_closed_ || pending_ > 0 || !outgoing_.empty() || std::exchange(ended_, true)) return;
  }
  Finish(grpc::Status::OK);
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
  open_ = {};
  std::int64_t watch = 0;
  {
    const std::scoped_lock lock(mutex_);
    watch = watch_;
  }
  if (watch != 0) call_.campaign->events().Unwatch(watch);
  // What the store still answers holds the stream; gRPC no longer does.
  const std::shared_ptr<WorkStream> last = std::move(self_);
}

}  // namespace fulcrum::pipeline
