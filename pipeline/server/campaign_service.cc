#include "pipeline/server/campaign_service.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/campaign_streams.h"
#include "pipeline/server/label_requests.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/status_macros.h"
#include "storage/state/label_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kLargestPage = 1000;
// An administrator of a daemon that asks for no tokens has no name.
constexpr char kUnnamedAdmin[] = "admin";

absl::Status CheckImport(const Campaign& campaign, const v1::ImportLabelsRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckRequest(request.request_id(), 0));
  const std::vector<std::string> classes = campaign.plan()->classes;
  for (const auto& entry : request.labels()) {
    if (std::find(classes.begin(), classes.end(), entry.value()) == classes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the label '", entry.value(), "' of '", entry.item_id(),
                                                     "' is not one of the classes: ", absl::StrJoin(classes, ", "),
                                                     "; nothing was imported"));
    }
    FULCRUM_RETURN_IF_ERROR(campaign.CheckItem(entry.item_id()));
  }
  return absl::OkStatus();
}

}  // namespace

std::size_t PageSize(int asked) {
  return static_cast<std::size_t>(asked <= 0 ? kDefaultPage : std::min(asked, kLargestPage));
}

absl::StatusOr<ChangeOrder> OrderOf(const Caller& caller, const std::string& request_id) {
  if (!request_id.empty()) FULCRUM_RETURN_IF_ERROR(CheckRequest(request_id, 0));
  return ChangeOrder{.by = caller.name.empty() ? kUnnamedAdmin : caller.name, .request_id = request_id};
}

namespace {

/// The text of a field; empty if the message has no such field.
std::string TextField(const google::protobuf::Message& message, const char* name) {
  const auto* const field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING) return "";
  return message.GetReflection()->GetString(message, field);
}

/// What an administrator did. The audit log of a server is its log.
void LogAdminCall(const grpc::ServerContextBase& context, const Caller& caller,
                  const google::protobuf::Message& request, const absl::Status& status) {
  const auto* const spec = request.GetDescriptor()->FindFieldByName("spec");
  std::string campaign = TextField(request, "campaign");
  if (campaign.empty() && spec != nullptr) {
    campaign = TextField(request.GetReflection()->GetMessage(request, spec), "name");
  }
  Log(LogLevel::kInfo, "admin call",
      {{"call", std::string(absl::StripSuffix(request.GetDescriptor()->name(), "Request"))},
       {"campaign", campaign},
       {"by", caller.name.empty() ? kUnnamedAdmin : caller.name},
       {"from", std::string(context.peer())},
       {"request_id", TextField(request, "request_id")},
       {"result", status.ok() ? "OK" : status.ToString(absl::StatusToStringMode::kWithNoExtraData)}});
}

/// An exception in one call must not end the process, and the caller must get an answer.
absl::Status RunAct(const CallRunner::Act& act, const Caller& caller) {
  try {
    return act(caller);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the server does not have enough memory for this call; retry later");
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "call failed with an exception", {{"reason", std::string(error.what())}});
    return absl::InternalError(absl::StrCat("the call failed: ", error.what()));
  }
}

}  // namespace

grpc::ServerUnaryReactor* CallRunner::Run(grpc::CallbackServerContext* context, CallerRole role,
                                          const google::protobuf::Message& request, Act act) const {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<Caller> caller = gatekeeper_.Admit(*context);
  absl::Status status = caller.status();
  if (status.ok()) {
    status = role == CallerRole::kAdmin ? AccessControl::RequireAdmin(*caller) : AccessControl::RequireReading(*caller);
  }
  if (!status.ok()) {
    if (caller.ok()) gatekeeper_.LogRefusal(*context, caller->name, status);
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  const auto run = [context, reactor, role, &request, caller = *caller, act = std::move(act)] {
    const absl::Status result = RunAct(act, caller);
    if (role == CallerRole::kAdmin) LogAdminCall(*context, caller, request, result);
    reactor->Finish(ToGrpcStatus(result));
  };
  if (!executor_.Submit(run)) reactor->Finish(ToGrpcStatus(Executor::Busy()));
  return reactor;
}

CampaignService::Reactor* CampaignService::CreateCampaign(Context* context, const v1::CreateCampaignRequest* request,
                                                          v1::CreateCampaignResponse* response) {
  return calls_.Run(context, CallerRole::kAdmin, *request,
                    [this, request, response](const Caller& caller) -> absl::Status {
                      FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
                      FULCRUM_ASSIGN_OR_RETURN(*response->mutable_operation(), operations_.Create(*request, order.by));
                      return absl::OkStatus();
                    });
}

CampaignService::Reactor* CampaignService::GetCampaign(Context* context, const v1::GetCampaignRequest* request,
                                                       v1::GetCampaignResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(*response->mutable_campaign(), campaigns_.Describe(request->campaign()));
    return absl::OkStatus();
  });
}

CampaignService::Reactor* CampaignService::ListCampaigns(Context* context, const v1::ListCampaignsRequest* request,
                                                         v1::ListCampaignsResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
    const std::size_t size = PageSize(request->page_size());
    auto page = campaigns_.DescribeAll(request->page_token(), size + 1);
    if (page.size() > size) {
      page.resize(size);
      response->set_next_page_token(page.back().name());
    }
    for (v1::Campaign& campaign : page) *response->add_campaigns() = std::move(campaign);
    return absl::OkStatus();
  });
}

template <typename Request, typename Response>
CampaignService::Reactor* CampaignService::Steer(Context* context, const Request* request, Response* response,
                                                 Step step) {
  return calls_.Run(context, CallerRole::kAdmin, *request,
                    [this, request, response, step](const Caller& caller) -> absl::Status {
                      FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
                      FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
                      FULCRUM_RETURN_IF_ERROR((*campaign.*step)(order));
                      *response->mutable_campaign() = campaign->DescribeFully();
                      return absl::OkStatus();
                    });
}

CampaignService::Reactor* CampaignService::StartCampaign(Context* context, const v1::StartCampaignRequest* request,
                                                         v1::StartCampaignResponse* response) {
  return Steer(context, request, response, &Campaign::Start);
}

CampaignService::Reactor* CampaignService::PauseCampaign(Context* context, const v1::PauseCampaignRequest* request,
                                                         v1::PauseCampaignResponse* response) {
  return Steer(context, request, response, &Campaign::Pause);
}

CampaignService::Reactor* CampaignService::ResumeCampaign(Context* context, const v1::ResumeCampaignRequest* request,
                                                          v1::ResumeCampaignResponse* response) {
  return Steer(context, request, response, &Campaign::Resume);
}

CampaignService::Reactor* CampaignService::StopCampaign(Context* context, const v1::StopCampaignRequest* request,
                                                        v1::StopCampaignResponse* response) {
  return Steer(context, request, response, &Campaign::Stop);
}

CampaignService::Reactor* CampaignService::RetrainCampaign(Context* context, const v1::RetrainCampaignRequest* request,
                                                           v1::RetrainCampaignResponse* response) {
  return Steer(context, request, response, &Campaign::Retrain);
}

CampaignService::Reactor* CampaignService::UpdateCampaign(Context* context, const v1::UpdateCampaignRequest* request,
                                                          v1::UpdateCampaignResponse* response) {
  return calls_.Run(context, CallerRole::kAdmin, *request,
                    [this, request, response](const Caller& caller) -> absl::Status {
                      FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
                      FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
                      FULCRUM_RETURN_IF_ERROR(campaign->Update(request->spec(), request->update_mask(), order));
                      *response->mutable_campaign() = campaign->DescribeFully();
                      return absl::OkStatus();
                    });
}

CampaignService::Reactor* CampaignService::DeleteCampaign(Context* context, const v1::DeleteCampaignRequest* request,
                                                          v1::DeleteCampaignResponse* response) {
  return calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller& caller) -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
        FULCRUM_ASSIGN_OR_RETURN(*response->mutable_trash_folder(), campaigns_.Delete(request->campaign(), order));
        return absl::OkStatus();
      });
}

CampaignService::Reactor* CampaignService::ImportLabels(Context* context, const v1::ImportLabelsRequest* request,
                                                        v1::ImportLabelsResponse* response) {
  return calls_.Run(context, CallerRole::kAdmin, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
    FULCRUM_RETURN_IF_ERROR(CheckImport(*campaign, *request));
    storage::ImportRequest import;
    import.source = request->source();
    import.request_id = request->request_id();
    for (const auto& entry : request->labels())
      import.labels.push_back({.item = entry.item_id(), .value = entry.value()});
    FULCRUM_ASSIGN_OR_RETURN(const storage::ImportAnswer answer,
                             campaign->store().Run(storage::ImportLabels, std::move(import)));
    response->set_imported(answer.labels);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::shared_ptr<Campaign>> CampaignService::FindForReading(const grpc::ServerContextBase& context,
                                                                          const std::string& name,
                                                                          Caller* caller) const {
  FULCRUM_ASSIGN_OR_RETURN(const Caller admitted, calls_.gatekeeper().Admit(context));
  FULCRUM_RETURN_IF_ERROR(AccessControl::RequireReading(admitted));
  if (caller != nullptr) *caller = admitted;
  return campaigns_.Find(name);
}

grpc::ServerReadReactor<v1::AppendItemsRequest>* CampaignService::AppendItems(Context* context,
                                                                              v1::AppendItemsResponse* response) {
  const absl::StatusOr<Caller> caller = calls_.gatekeeper().Admit(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = AccessControl::RequireAdmin(*caller);
  if (!status.ok()) return AppendStream::Refuse(long_calls_.executor(), status);
  return AppendStream::Begin(
      long_calls_.executor(), [this](const std::string& name) { return campaigns_.Find(name); },
      caller->name.empty() ? kUnnamedAdmin : caller->name, response);
}

grpc::ServerWriteReactor<v1::ExportLabelsResponse>* CampaignService::ExportLabels(
    Context* context, const v1::ExportLabelsRequest* request) {
  using Stream = PagedStream<v1::ExportLabelsResponse>;
  const auto campaign = FindForReading(*context, request->campaign());
  if (!campaign.ok()) return Stream::Refuse(long_calls_.executor(), campaign.status());
  const auto pages = std::make_shared<LabelPages>((*campaign)->store().folder().path());
  return Stream::Begin(long_calls_.executor(), [pages] { return pages->Next(); });
}

grpc::ServerWriteReactor<v1::GetModelResponse>* CampaignService::GetModel(Context* context,
                                                                          const v1::GetModelRequest* request) {
  using Stream = PagedStream<v1::GetModelResponse>;
  const auto campaign = FindForReading(*context, request->campaign());
  if (!campaign.ok()) return Stream::Refuse(long_calls_.executor(), campaign.status());
  if (const absl::Status status = CheckNumbers(*request); !status.ok())
    return Stream::Refuse(long_calls_.executor(), status);
  const auto pages = std::make_shared<ModelPages>(*campaign, request->round());
  return Stream::Begin(long_calls_.executor(), [pages] { return pages->Next(); });
}

CampaignService::Reactor* CampaignService::Predict(Context* context, const v1::PredictRequest* request,
                                                   v1::PredictResponse* response) {
  return long_calls_.Run(context, CallerRole::kReader, *request,
                         [this, request, response](const Caller&) -> absl::Status {
                           FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
                           FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
                           FULCRUM_ASSIGN_OR_RETURN(*response, campaign->Predict(*request));
                           return absl::OkStatus();
                         });
}

grpc::ServerWriteReactor<v1::WatchCampaignResponse>* CampaignService::WatchCampaign(
    Context* context, const v1::WatchCampaignRequest* request) {
  auto* stream = new MessageStream<v1::WatchCampaignResponse>();
  const auto feed = stream->feed();
  Caller caller;
  const auto found = FindForReading(*context, request->campaign(), &caller);
  absl::Status status = found.status();
  if (status.ok()) status = CheckNumbers(*request);
  if (!status.ok()) {
    feed->End(status);
    return stream;
  }
  const std::shared_ptr<Campaign> campaign = *found;
  const auto caught_up = std::make_shared<std::atomic<bool>>(false);
  const auto tell = [feed, context, caught_up](const v1::CampaignEvent& event) {
    v1::WatchCampaignResponse response;
    *response.mutable_event() = event;
    // A watcher that does not keep up is let go: it comes back and is told what it missed. A status would wait behind
    // all that it does not read.
    if (!feed->Offer(std::move(response))) context->TryCancel();
    // A state that it missed does not end the stream: the campaign may run again.
    if (*caught_up && event.campaign().state() == v1::CAMPAIGN_STATE_DONE) feed->End(absl::OkStatus());
  };
  const std::int64_t id = campaign->events().Watch(request->after_sequence(), tell, [feed] {
    feed->End(absl::UnavailableError("the daemon is stopping, or the campaign is deleted; watch again later"));
  });
  *caught_up = true;
  const auto open = std::make_shared<AccessControl::OpenStream>(
      calls_.gatekeeper().NoteStream(caller, [feed](const absl::Status& why) { feed->End(why); }));
  stream->set_on_end([campaign, id, open] { campaign->events().Unwatch(id); });
  v1::CampaignEvent now;
  *now.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  *now.mutable_campaign() = campaign->Describe();
  now.set_sequence(now.campaign().sequence());
  tell(now);
  return stream;
}

}  // namespace fulcrum::pipeline
