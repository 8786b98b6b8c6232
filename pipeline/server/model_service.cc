#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/campaign/model/model_tasks.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/server/streams/campaign_streams.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"
#include "storage/rules/model_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::chrono::milliseconds kLongestModelWait{60'000};

google::protobuf::Timestamp ToTimestamp(storage::Time time) {
  return google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(time));
}

/// SubmitPredictions: checks and writes what arrives.
class PredictionStream final : public UploadStream<v1::SubmitPredictionsRequest> {
 public:
  using BeginUpload = std::function<absl::StatusOr<std::unique_ptr<PredictionUpload>>(
      const v1::SubmitPredictionsRequest::Begin& begin)>;

  PredictionStream(Executor& executor, StreamCaller caller, BeginUpload begin, v1::SubmitPredictionsResponse* response)
      : UploadStream(executor, std::move(caller)), begin_(std::move(begin)), response_(response) {}

 private:
  void Release() override { upload_.reset(); }

  absl::Status Take(const v1::SubmitPredictionsRequest& message) override {
    if (upload_ == nullptr) {
      if (!message.has_begin()) return absl::InvalidArgumentError("the first message must be 'begin'");
      FULCRUM_ASSIGN_OR_RETURN(upload_, begin_(message.begin()));
      return absl::OkStatus();
    }
    if (!complete_ && message.message_case() == v1::SubmitPredictionsRequest::kPlain) {
      return upload_->AddPlain(message.plain());
    }
    if (!complete_ && message.message_case() == v1::SubmitPredictionsRequest::kArrow) {
      return upload_->AddArrow(message.arrow());
    }
    if (!complete_ && message.message_case() == v1::SubmitPredictionsRequest::kPlainFeatures) {
      FULCRUM_RETURN_IF_ERROR(CheckNumbers(message.plain_features()));
      return upload_->AddPlainFeatures(message.plain_features());
    }
    if (!complete_ && message.message_case() == v1::SubmitPredictionsRequest::kArrowFeatures) {
      return upload_->AddArrowFeatures(message.arrow_features());
    }
    if (complete_ || !message.end()) {
      return absl::InvalidArgumentError(
          "after 'begin' come messages with 'plain' or 'arrow', possibly some with 'plain_features' or "
          "'arrow_features', and then one 'end'");
    }
    complete_ = true;
    return absl::OkStatus();
  }

  absl::Status Complete() override {
    // A client that has gone looks like one that has sent all: only 'end' tells them apart.
    if (!complete_) return absl::InvalidArgumentError("the stream ended before 'end'; nothing was stored");
    FULCRUM_ASSIGN_OR_RETURN(const storage::StorePredictionsAnswer answer, upload_->Finish());
    response_->set_sequence(answer.sequence);
    response_->set_late(answer.late);
    return absl::OkStatus();
  }

  const BeginUpload begin_;
  v1::SubmitPredictionsResponse* const response_;
  std::unique_ptr<PredictionUpload> upload_;
  bool complete_ = false;
};

template <typename Request>
storage::ModelLeaseRequest ModelLeaseOf(const Request& request, const std::string& process, const Campaign& campaign) {
  return {.process = process,
          .request_id = request.request_id(),
          .lease = request.lease_id(),
          .epoch = request.epoch(),
          .lease_time = campaign.plan()->external->lease_time};
}

absl::Status CheckOptionalId(const std::string& request_id) {
  return request_id.empty() ? absl::OkStatus() : CheckRequest(request_id, 0);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Campaign>> ModelService::FindCampaign(const std::string& name) const {
  FULCRUM_ASSIGN_OR_RETURN(std::shared_ptr<Campaign> campaign, campaigns_.Find(name));
  if (campaign->plan()->external) return campaign;
  return absl::FailedPreconditionError(
      absl::StrCat("campaign '", name,
                   "' uses the built-in classifier; a campaign with classifier.external in its "
                   "specification asks for a model process"));
}

absl::StatusOr<ModelService::Admitted> ModelService::Admit(const grpc::ServerContextBase& context,
                                                           const std::string& campaign,
                                                           const std::string& process) const {
  FULCRUM_ASSIGN_OR_RETURN(const Caller caller, access_.Admit(context));
  Admitted call{.caller = caller};
  FULCRUM_ASSIGN_OR_RETURN(call.process, AccessControl::AnnotatorOf(caller, process));
  FULCRUM_ASSIGN_OR_RETURN(call.campaign, FindCampaign(campaign));
  return call;
}

absl::StatusOr<std::shared_ptr<const ModelTaskData>> ModelService::AdmitReader(const grpc::ServerContextBase& context,
                                                                               const std::string& campaign,
                                                                               std::int64_t task,
                                                                               Caller& caller) const {
  FULCRUM_ASSIGN_OR_RETURN(caller, access_.Admit(context));
  FULCRUM_RETURN_IF_ERROR(AccessControl::RequireLabeling(caller));
  FULCRUM_ASSIGN_OR_RETURN(const auto found, FindCampaign(campaign));
  auto data = found->published_task().Find(task);
  const auto status = found->store().status();
  const bool open = status->model_task && status->model_task->id == task && status->model_task->open();
  // After a restart it takes a moment until the task can be read again.
  if (!data.ok() && open) return absl::UnavailableError("the model task is being prepared; retry");
  return data;
}

struct ModelService::Acquiring {
  std::shared_ptr<Campaign> campaign = {};
  Caller caller = {};
  std::string process = {};
  std::string request_id = {};
  TaskWaiters::Clock::time_point until = {};
  grpc::CallbackServerContext* context = nullptr;
  grpc::ServerUnaryReactor* reactor = nullptr;
  v1::AcquireModelTaskResponse* response = nullptr;

  void Finish(const absl::Status& status) const { reactor->Finish(ToGrpcStatus(status)); }
};

grpc::ServerUnaryReactor* ModelService::AcquireModelTask(grpc::CallbackServerContext* context,
                                                         const v1::AcquireModelTaskRequest* request,
                                                         v1::AcquireModelTaskResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::StatusOr<Admitted> call = Admit(*context, request->campaign(), request->process());
  absl::Status status = call.status();
  if (status.ok()) status = CheckRequest(request->request_id(), 0);
  if (status.ok()) status = CheckNumbers(*request);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  const auto asked =
      std::chrono::milliseconds(google::protobuf::util::TimeUtil::DurationToMilliseconds(request->wait()));
  auto acquiring = std::make_shared<Acquiring>();
  *acquiring = {.campaign = call->campaign,
                .caller = call->caller,
                .process = call->process,
                .request_id = request->request_id(),
                .until = TaskWaiters::Clock::now() + std::clamp(asked, std::chrono::milliseconds(0), kLongestModelWait),
                .context = context,
                .reactor = reactor,
                .response = response};
  Try(acquiring, /*again=*/false);
  return reactor;
}

void ModelService::Try(const std::shared_ptr<Acquiring>& call, bool again) {
  if (call->context->IsCancelled()) return call->Finish(absl::CancelledError("the process has gone"));
  if (const absl::Status known = access_.CheckToken(call->caller); !known.ok()) return call->Finish(known);
  const auto status = call->campaign->store().status();
  const bool open = call->campaign->offers_tasks() && status->model_task && status->model_task->open();
  const auto data = open ? call->campaign->published_task().Find(status->model_task->id)
                         : absl::StatusOr<std::shared_ptr<const ModelTaskData>>(absl::AbortedError("no task"));
  if (!data.ok()) return WaitOrGiveUp(call, again);
  call->campaign->store().Start(
      storage::AcquireModelTask,
      {.process = call->process,
       .request_id = call->request_id,
       .task = (*data)->id,
       .lease_time = call->campaign->plan()->external->lease_time},
      [this, call, again, data = *data](const auto& answer) { Receive(call, again, data, answer); });
}

void ModelService::Receive(const std::shared_ptr<Acquiring>& call, bool again,
                           std::shared_ptr<const ModelTaskData> data,
                           const absl::StatusOr<storage::AcquireModelAnswer>& answer) {
  if (answer.ok() && answer->lease == 0) return WaitOrGiveUp(call, again);
  if (answer.ok()) {
    v1::ModelTask& task = *call->response->mutable_task();
    task = data->description;
    task.set_lease_id(answer->lease);
    task.set_epoch(answer->epoch);
    *task.mutable_expires_at() = ToTimestamp(answer->expires_at);
    *task.mutable_lease_time() =
        google::protobuf::util::TimeUtil::MillisecondsToDuration(call->campaign->plan()->external->lease_time.count());
    *task.mutable_until() = ToTimestamp(answer->task.since + call->campaign->plan()->external->timeout);
  }
  // Not on the store's thread, which has others to serve.
  replies_.Post([this, call, answer] {
    // It may have waited for a minute, and its token may be revoked meanwhile.
    if (const absl::Status known = access_.CheckToken(call->caller); !known.ok()) {
      if (answer.ok()) {
        call->campaign->store().Start(storage::ReleaseModelLease,
                                      {.process = call->process, .lease = answer->lease, .epoch = answer->epoch},
                                      [held = call->campaign](const auto&) {});
      }
      call->response->Clear();
      return call->Finish(known);
    }
    call->Finish(answer.status());
  });
}

void ModelService::WaitOrGiveUp(const std::shared_ptr<Acquiring>& call, bool again) {
  if (!call->campaign->over() && TaskWaiters::Clock::now() < call->until) {
    return waiters_.Wait(call->campaign->name(), call->until, again, [this, call](Wake why) {
      if (why == Wake::kStopping)
        return call->Finish(absl::UnavailableError("the daemon is stopping; ask again later"));
      Try(call, /*again=*/true);
    });
  }
  call->response->set_campaign_over(call->campaign->over());
  call->campaign->DescribeWaiting([this, call](std::vector<v1::WaitingFor> reasons) {
    for (v1::WaitingFor& reason : reasons) *call->response->add_waiting_for() = std::move(reason);
    replies_.Post([call] { call->Finish(absl::OkStatus()); });
  });
}

grpc::ServerUnaryReactor* ModelService::RenewModelTask(grpc::CallbackServerContext* context,
                                                       const v1::RenewModelTaskRequest* request,
                                                       v1::RenewModelTaskResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::StatusOr<Admitted> call = Admit(*context, request->campaign(), request->process());
  absl::Status status = call.status();
  if (status.ok()) status = CheckOptionalId(request->request_id());
  if (status.ok()) status = CheckNumbers(*request);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  call->campaign->store().Start(
      storage::RenewModelLease, ModelLeaseOf(*request, call->process, *call->campaign),
      [this, reactor, response, held = call->campaign](const auto& answer) {
        if (answer.ok()) *response->mutable_expires_at() = ToTimestamp(*answer);
        replies_.Post([reactor, held, status = answer.status()] { reactor->Finish(ToGrpcStatus(status)); });
      });
  return reactor;
}

grpc::ServerUnaryReactor* ModelService::ReleaseModelTask(grpc::CallbackServerContext* context,
                                                         const v1::ReleaseModelTaskRequest* request,
                                                         v1::ReleaseModelTaskResponse* /*response*/) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const absl::StatusOr<Admitted> call = Admit(*context, request->campaign(), request->process());
  absl::Status status = call.status();
  if (status.ok()) status = CheckOptionalId(request->request_id());
  if (status.ok()) status = CheckNumbers(*request);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  call->campaign->store().Start(
      storage::ReleaseModelLease, ModelLeaseOf(*request, call->process, *call->campaign),
      [this, reactor, held = call->campaign](const auto& answer) {
        replies_.Post([reactor, held, status = answer.status()] { reactor->Finish(ToGrpcStatus(status)); });
      });
  return reactor;
}

grpc::ServerWriteReactor<v1::GetModelLabelsResponse>* ModelService::GetModelLabels(
    grpc::CallbackServerContext* context, const v1::GetModelLabelsRequest* request) {
  using Stream = PagedStream<v1::GetModelLabelsResponse>;
  if (const absl::Status status = CheckNumbers(*request); !status.ok()) return Stream::Refuse(lane_, status);
  Caller caller;
  const auto data = AdmitReader(*context, request->campaign(), request->task_id(), caller);
  if (!data.ok()) return Stream::Refuse(lane_, data.status());
  const auto pages = std::make_shared<ModelLabelPages>(*data, *request);
  return Stream::Begin(lane_, {access_, caller}, [pages] { return pages->Next(); });
}

grpc::ServerWriteReactor<v1::GetModelRowsResponse>* ModelService::GetModelRows(grpc::CallbackServerContext* context,
                                                                               const v1::GetModelRowsRequest* request) {
  using Stream = PagedStream<v1::GetModelRowsResponse>;
  if (const absl::Status status = CheckNumbers(*request); !status.ok()) return Stream::Refuse(lane_, status);
  Caller caller;
  const auto data = AdmitReader(*context, request->campaign(), request->task_id(), caller);
  if (!data.ok()) return Stream::Refuse(lane_, data.status());
  const auto pages = std::make_shared<ModelRowPages>(*data, *request);
  return Stream::Begin(lane_, {access_, caller}, [pages] { return pages->Next(); });
}

grpc::ServerReadReactor<v1::SubmitPredictionsRequest>* ModelService::SubmitPredictions(
    grpc::CallbackServerContext* context, v1::SubmitPredictionsResponse* response) {
  const absl::StatusOr<Caller> caller = access_.Admit(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = AccessControl::RequireLabeling(*caller);
  if (!status.ok()) return new RefusedUpload<v1::SubmitPredictionsRequest>(status);
  return UploadStream<v1::SubmitPredictionsRequest>::Begin(std::make_shared<PredictionStream>(
      lane_, StreamCaller{access_, *caller},
      [this, caller = *caller](
          const v1::SubmitPredictionsRequest::Begin& begin) -> absl::StatusOr<std::unique_ptr<PredictionUpload>> {
        FULCRUM_RETURN_IF_ERROR(CheckRequest(begin.request_id(), 0));
        FULCRUM_RETURN_IF_ERROR(CheckNumbers(begin));
        FULCRUM_ASSIGN_OR_RETURN(const std::string process, AccessControl::AnnotatorOf(caller, begin.process()));
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, FindCampaign(begin.campaign()));
        return PredictionUpload::Begin(campaign, ModelLeaseOf(begin, process, *campaign));
      },
      response));
}

}  // namespace fulcrum::pipeline
