#include "pipeline/server/labeling_service.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/campaign_service.h"
#include "pipeline/server/streams/bidirectional_streams.h"
#include "pipeline/server/streams/campaign_streams.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

namespace {

// A message has at most 4 MiB; a payload above the first limit is fetched by a call of its own.
constexpr std::size_t kLargestInlinePayload = std::size_t{1} << 20;
constexpr std::size_t kMostReplyBytes = std::size_t{7} << 19;
// Of a task besides its payload, without the classes and the question.
constexpr std::size_t kTaskBytes = 100;

/// What a task takes in a reply, about.
std::size_t TaskBytes(const CampaignPlan& plan, const std::string& item, std::size_t payload) {
  std::size_t bytes = kTaskBytes + item.size() + plan.question.size() + (payload > kLargestInlinePayload ? 0 : payload);
  for (const std::string& name : plan.classes) bytes += name.size() + 4;
  return bytes;
}

}  // namespace

std::size_t DescribeTasks(const Campaign& campaign, const TakenTasks& taken, std::size_t first,
                          v1::AcquireTasksResponse& response) {
  const std::shared_ptr<const CampaignPlan> held = campaign.plan();
  const CampaignPlan& plan = *held;
  if (taken.campaign_over) response.set_campaign_over(true);
  response.mutable_tasks()->Reserve(static_cast<int>(taken.leases.size() - first));
  std::size_t bytes = 0;
  std::size_t next = first;
  for (; next < taken.leases.size(); ++next) {
    const storage::GrantedLease& lease = taken.leases[next];
    const std::size_t payload_bytes = campaign.PayloadBytes(lease.item);
    bytes += TaskBytes(plan, lease.item, payload_bytes);
    if (next > first && bytes > kMostReplyBytes) break;
    v1::Task& task = *response.add_tasks();
    task.set_lease_id(lease.lease);
    task.set_epoch(lease.epoch);
    task.set_item_id(lease.item);
    task.set_round(lease.round);
    *task.mutable_expires_at() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(lease.expires_at));
    task.mutable_classes()->Reserve(static_cast<int>(plan.classes.size()));
    for (const std::string& name : plan.classes) task.add_classes(name);
    // Even an empty one would be a string more for every task.
    if (!plan.question.empty()) task.set_question(plan.question);
    if (payload_bytes > kLargestInlinePayload) {
      task.set_large_payload_bytes(static_cast<std::int64_t>(payload_bytes));
    } else if (payload_bytes > 0) {
      task.set_payload(campaign.PayloadOf(lease.item));
    }
  }
  return next - first;
}

void ReleaseTaken(const std::shared_ptr<Campaign>& campaign, const std::string& annotator, const TakenTasks& taken) {
  for (const storage::GrantedLease& lease : taken.leases) {
    campaign->store().Start(storage::ReleaseLease, {.annotator = annotator, .lease = lease.lease, .epoch = lease.epoch},
                            [held = campaign](const absl::StatusOr<storage::ReleaseAnswer>&) {});
  }
}

void TaskAcquirer::Try(const std::shared_ptr<Attempt>& attempt, bool again) {
  const AcquireCall& call = attempt->call;
  if (call.gone && call.gone()) return attempt->done(absl::CancelledError("the worker has gone"));
  if (!call.campaign->offers_tasks()) return WaitOrGiveUp(attempt, again);
  call.campaign->store().Start(
      storage::AcquireTasks,
      {.annotator = call.annotator,
       .request_id = call.request_id,
       .most = call.most,
       .most_bytes = kMostReplyBytes,
       .bytes_of = [campaign = call.campaign, plan = call.campaign->plan()](
                       const std::string& item) { return TaskBytes(*plan, item, campaign->PayloadBytes(item)); }},
      [this, attempt, again](absl::StatusOr<storage::AcquireAnswer> answer) {
        Receive(attempt, again, std::move(answer));
      },
      call.turn);
}

void TaskAcquirer::Receive(const std::shared_ptr<Attempt>& attempt, bool again,
                           absl::StatusOr<storage::AcquireAnswer> answer) {
  // A spent budget is no error to a worker: what is out may come back, and otherwise the campaign is about to end.
  const bool spent = answer.status().code() == absl::StatusCode::kResourceExhausted;
  if (!answer.ok() && !spent) return attempt->done(answer.status());
  if (spent || answer->leases.empty()) return WaitOrGiveUp(attempt, again);
  replies_.Post([attempt, taken = TakenTasks{.leases = std::move(answer->leases)}] { attempt->done(taken); },
                attempt->call.turn);
}

void TaskAcquirer::WaitOrGiveUp(const std::shared_ptr<Attempt>& attempt, bool again) {
  const AcquireCall& call = attempt->call;
  if (call.campaign->over() || TaskWaiters::Clock::now() >= call.until) {
    return attempt->done(TakenTasks{.campaign_over = call.campaign->over()});
  }
  waiters_.Wait(call.campaign->name(), call.until, again, [this, attempt](Wake why) { Resume(attempt, why); });
}

void TaskAcquirer::Resume(const std::shared_ptr<Attempt>& attempt, Wake why) {
  if (why == Wake::kStopping) return attempt->done(absl::UnavailableError("the daemon is stopping; ask again later"));
  Try(attempt, /*again=*/true);
}

namespace {

constexpr std::chrono::milliseconds kLongestWait{60'000};

/// Admits a call, checks it, and carries it out: `act` gets the campaign, the annotator and what to call at the end.
template <typename Request, typename Response, typename Parts, typename Act>
grpc::ServerUnaryReactor* Handle(const LabelingService& service, grpc::CallbackServerContext* context,
                                 const Request& request, const Parts& parts, Response* response, Act act) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<LabelingCall> call = service.Admit(*context, request.campaign(), request.annotator());
  absl::Status status = call.status();
  if (status.ok()) status = CheckRequest(request.request_id(), parts.size());
  if (status.ok()) status = CheckNumbers(request);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  // The campaign is held by the answer, so that it cannot go before the store has given it.
  act({.campaign = *call->campaign, .annotator = call->annotator, .replies = service.replies()}, request, *response,
      [reactor, held = call->campaign] { reactor->Finish(grpc::Status::OK); });
  return reactor;
}

void DescribeForLabeling(const Campaign& campaign, v1::LabelingCampaign& entry) {
  v1::Campaign state = campaign.Describe();
  entry.set_campaign(state.name());
  entry.set_question(state.spec().question());
  entry.set_state(state.state());
  entry.set_round(state.round());
  entry.set_round_items(state.round_items());
  entry.set_round_settled(state.round_settled());
  entry.set_open_tasks(state.open_tasks());
  entry.set_labels(state.labels());
  entry.set_label_budget(state.spec().stop().labels());
}

absl::Status CheckAcquire(const v1::AcquireTasksRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckRequest(request.request_id(), 0));
  return CheckNumbers(request);
}

}  // namespace

LabelingService::LabelingService(CampaignRegistry& campaigns, const AccessControl& access, TaskWaiters& waiters,
                                 ReplySender& replies, Executor& executor)
    : campaigns_(campaigns), access_(access), replies_(replies), executor_(executor), acquirer_(waiters, replies) {
  SetMessageAllocatorFor_AcquireTasks(&acquire_messages_);
  SetMessageAllocatorFor_SubmitLabels(&submit_messages_);
}

absl::StatusOr<LabelingCall> LabelingService::Admit(const grpc::ServerContextBase& context, const std::string& campaign,
                                                    const std::string& annotator) const {
  FULCRUM_ASSIGN_OR_RETURN(const Caller caller, access_.Admit(context));
  LabelingCall call;
  FULCRUM_ASSIGN_OR_RETURN(call.annotator, AccessControl::AnnotatorOf(caller, annotator));
  FULCRUM_ASSIGN_OR_RETURN(call.campaign, campaigns_.Find(campaign));
  call.caller = caller;
  return call;
}

absl::StatusOr<AccessControl::OpenStream> LabelingService::AdmitStream(
    const grpc::ServerContextBase& context, std::function<void(const absl::Status&)> end) const {
  FULCRUM_ASSIGN_OR_RETURN(const Caller caller, access_.Admit(context));
  FULCRUM_RETURN_IF_ERROR(AccessControl::RequireLabeling(caller));
  return access_.NoteStream(caller, std::move(end));
}

grpc::ServerUnaryReactor* LabelingService::ListLabelingCampaigns(grpc::CallbackServerContext* context,
                                                                 const v1::ListLabelingCampaignsRequest* request,
                                                                 v1::ListLabelingCampaignsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto list = [&]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const Caller caller, access_.Admit(*context));
    FULCRUM_RETURN_IF_ERROR(AccessControl::RequireLabeling(caller));
    FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
    const std::size_t size = PageSize(request->page_size());
    // A page is of all campaigns, so that it ends after a bounded time also if most of them are done.
    auto page = campaigns_.List(request->page_token(), size + 1);
    if (page.size() > size) {
      page.resize(size);
      response->set_next_page_token(page.back()->name());
    }
    for (const auto& campaign : page) {
      if (!campaign->over()) DescribeForLabeling(*campaign, *response->add_campaigns());
    }
    return absl::OkStatus();
  };
  reactor->Finish(ToGrpcStatus(list()));
  return reactor;
}

grpc::ServerUnaryReactor* LabelingService::AcquireTasks(grpc::CallbackServerContext* context,
                                                        const v1::AcquireTasksRequest* request,
                                                        v1::AcquireTasksResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<LabelingCall> call = Admit(*context, request->campaign(), request->annotator());
  absl::Status status = call.status();
  if (status.ok()) status = CheckAcquire(*request);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  const auto asked =
      std::chrono::milliseconds(google::protobuf::util::TimeUtil::DurationToMilliseconds(request->wait()));
  const auto wait = std::clamp(asked, std::chrono::milliseconds(0), kLongestWait);
  acquirer_.Acquire(
      {.campaign = call->campaign,
       .annotator = call->annotator,
       .request_id = request->request_id(),
       .most = request->max_tasks(),
       .until = TaskWaiters::Clock::now() + wait,
       .gone = [this, context,
                caller = call->caller] { return context->IsCancelled() || !access_.CheckToken(caller).ok(); }},
      [this, reactor, response, caller = call->caller, annotator = call->annotator,
       held = call->campaign](const absl::StatusOr<TakenTasks>& taken) {
        // A call may wait for a minute. Leases that are granted before this check are released with the
        // others when the token is revoked later.
        if (const absl::Status known = access_.CheckToken(caller); !known.ok()) {
          if (taken.ok()) ReleaseTaken(held, annotator, *taken);
          return reactor->Finish(ToGrpcStatus(known));
        }
        // Payloads may need more memory than there is. A repeated request gets the same tasks.
        const absl::Status described = RunGuarded([&] {
          if (taken.ok()) DescribeTasks(*held, *taken, 0, *response);
          return taken.status();
        });
        if (!described.ok() || taken->worth_telling()) return reactor->Finish(ToGrpcStatus(described));
        held->DescribeWaiting(
            [this, reactor, response, held](std::vector<v1::WaitingFor> reasons) {
              for (v1::WaitingFor& reason : reasons) *response->add_waiting_for() = std::move(reason);
              // Not on the store's thread, which has others to serve.
              replies_.Post([reactor, held] { reactor->Finish(grpc::Status::OK); });
            },
            annotator);
      });
  return reactor;
}

grpc::ServerWriteReactor<v1::GetPayloadResponse>* LabelingService::GetPayload(grpc::CallbackServerContext* context,
                                                                              const v1::GetPayloadRequest* request) {
  using Stream = PagedStream<v1::GetPayloadResponse>;
  const absl::StatusOr<Caller> caller = access_.Admit(*context);
  if (!caller.ok()) return Stream::Refuse(executor_, caller.status());
  const auto campaign = campaigns_.Find(request->campaign());
  if (!campaign.ok()) return Stream::Refuse(executor_, campaign.status());
  if (const absl::Status status = (*campaign)->CheckItem(request->item_id()); !status.ok()) {
    return Stream::Refuse(executor_, status);
  }
  const auto find = [this, name = request->campaign()] { return campaigns_.Find(name); };
  const auto pages = std::make_shared<PayloadPages>(find, request->item_id());
  return Stream::Begin(executor_, {access_, *caller}, [pages] { return pages->Next(); });
}

grpc::ServerUnaryReactor* LabelingService::RenewLeases(grpc::CallbackServerContext* context,
                                                       const v1::RenewLeasesRequest* request,
                                                       v1::RenewLeasesResponse* response) {
  return Handle(*this, context, *request, request->leases(), response, pipeline::RenewLeases);
}

grpc::ServerUnaryReactor* LabelingService::SubmitLabels(grpc::CallbackServerContext* context,
                                                        const v1::SubmitLabelsRequest* request,
                                                        v1::SubmitLabelsResponse* response) {
  return Handle(*this, context, *request, request->labels(), response, pipeline::SubmitLabels);
}

grpc::ServerUnaryReactor* LabelingService::ChangeLabels(grpc::CallbackServerContext* context,
                                                        const v1::ChangeLabelsRequest* request,
                                                        v1::ChangeLabelsResponse* response) {
  return Handle(*this, context, *request, request->changes(), response, pipeline::ChangeLabels);
}

grpc::ServerUnaryReactor* LabelingService::SkipTasks(grpc::CallbackServerContext* context,
                                                     const v1::SkipTasksRequest* request,
                                                     v1::SkipTasksResponse* response) {
  return Handle(*this, context, *request, request->skips(), response, pipeline::SkipTasks);
}

grpc::ServerUnaryReactor* LabelingService::ReleaseTasks(grpc::CallbackServerContext* context,
                                                        const v1::ReleaseTasksRequest* request,
                                                        v1::ReleaseTasksResponse* response) {
  return Handle(*this, context, *request, request->leases(), response, pipeline::ReleaseTasks);
}

grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* LabelingService::Work(
    grpc::CallbackServerContext* context) {
  return WorkStream::Begin(*this, acquirer_, *context);
}

}  // namespace fulcrum::pipeline
