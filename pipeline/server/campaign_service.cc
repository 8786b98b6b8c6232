#include "pipeline/server/campaign_service.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/campaign_streams.h"
#include "pipeline/server/label_requests.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"
#include "storage/state/label_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kLargestPage = 1000;
// An administrator of a daemon that asks for no tokens has no name.
constexpr char kNobody[] = "admin";

absl::Status CheckImport(const Campaign& campaign, const v1::ImportLabelsRequest& request) {
  FULCRUM_RETURN_IF_ERROR(CheckRequest(request.request_id(), 0));
  const std::vector<std::string>& classes = campaign.plan().classes;
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

grpc::ServerUnaryReactor* CampaignService::Handle(grpc::CallbackServerContext* context, bool needs_admin,
                                                  std::function<absl::Status()> act) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::StatusOr<Caller> caller = gatekeeper_.Admit(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = needs_admin ? AccessControl::RequireAdmin(*caller) : AccessControl::RequireReading(*caller);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  if (!executor_.Submit([reactor, act = std::move(act)] { reactor->Finish(ToGrpcStatus(act())); })) {
    reactor->Finish(ToGrpcStatus(Executor::Busy()));
  }
  return reactor;
}

grpc::ServerUnaryReactor* CampaignService::CreateCampaign(grpc::CallbackServerContext* context,
                                                          const v1::CreateCampaignRequest* request,
                                                          v1::Campaign* response) {
  return Handle(context, true, [this, request, response]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Create(request->spec()));
    *response = campaign->Describe();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* CampaignService::GetCampaign(grpc::CallbackServerContext* context,
                                                       const v1::GetCampaignRequest* request, v1::Campaign* response) {
  return Handle(context, false, [this, request, response]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(*response, campaigns_.Describe(request->name()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* CampaignService::ListCampaigns(grpc::CallbackServerContext* context,
                                                         const v1::ListCampaignsRequest* request,
                                                         v1::ListCampaignsResponse* response) {
  return Handle(context, false, [this, request, response]() -> absl::Status {
    FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
    const int size = request->page_size() <= 0 ? kDefaultPage : std::min(request->page_size(), kLargestPage);
    auto page = campaigns_.DescribeAll(request->page_token(), static_cast<std::size_t>(size) + 1);
    for (std::size_t i = 0; i < page.size() && i < static_cast<std::size_t>(size); ++i) {
      *response->add_campaigns() = std::move(page[i]);
    }
    if (page.size() > static_cast<std::size_t>(size))
      response->set_next_page_token(response->campaigns(size - 1).name());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* CampaignService::Steer(grpc::CallbackServerContext* context,
                                                 const v1::CampaignRequest* request, v1::Campaign* response,
                                                 absl::Status (Campaign::*step)()) {
  return Handle(context, true, [this, request, response, step]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->name()));
    FULCRUM_RETURN_IF_ERROR((*campaign.*step)());
    *response = campaign->Describe();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* CampaignService::StartCampaign(grpc::CallbackServerContext* context,
                                                         const v1::CampaignRequest* request, v1::Campaign* response) {
  return Steer(context, request, response, &Campaign::Start);
}

grpc::ServerUnaryReactor* CampaignService::PauseCampaign(grpc::CallbackServerContext* context,
                                                         const v1::CampaignRequest* request, v1::Campaign* response) {
  return Steer(context, request, response, &Campaign::Pause);
}

grpc::ServerUnaryReactor* CampaignService::ResumeCampaign(grpc::CallbackServerContext* context,
                                                          const v1::CampaignRequest* request, v1::Campaign* response) {
  return Steer(context, request, response, &Campaign::Resume);
}

grpc::ServerUnaryReactor* CampaignService::StopCampaign(grpc::CallbackServerContext* context,
                                                        const v1::CampaignRequest* request, v1::Campaign* response) {
  return Steer(context, request, response, &Campaign::Stop);
}

grpc::ServerUnaryReactor* CampaignService::RetrainCampaign(grpc::CallbackServerContext* context,
                                                           const v1::CampaignRequest* request, v1::Campaign* response) {
  return Steer(context, request, response, &Campaign::Retrain);
}

grpc::ServerUnaryReactor* CampaignService::DeleteCampaign(grpc::CallbackServerContext* context,
                                                          const v1::CampaignRequest* request,
                                                          v1::DeleteCampaignResponse* response) {
  return Handle(context, true, [this, request, response]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(*response->mutable_trash_folder(), campaigns_.Delete(request->name()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* CampaignService::ImportLabels(grpc::CallbackServerContext* context,
                                                        const v1::ImportLabelsRequest* request,
                                                        v1::ImportLabelsResponse* response) {
  return Handle(context, true, [this, request, response]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->name()));
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
  FULCRUM_ASSIGN_OR_RETURN(const Caller admitted, gatekeeper_.Admit(context));
  FULCRUM_RETURN_IF_ERROR(AccessControl::RequireReading(admitted));
  if (caller != nullptr) *caller = admitted;
  return campaigns_.Find(name);
}

grpc::ServerReadReactor<v1::AppendItemsRequest>* CampaignService::AppendItems(grpc::CallbackServerContext* context,
                                                                              v1::AppendItemsResponse* response) {
  const absl::StatusOr<Caller> caller = gatekeeper_.Admit(*context);
  absl::Status status = caller.status();
  if (status.ok()) status = AccessControl::RequireAdmin(*caller);
  if (!status.ok()) return AppendStream::Refuse(executor_, status);
  return AppendStream::Begin(
      executor_, [this](const std::string& name) { return campaigns_.Find(name); },
      caller->name.empty() ? kNobody : caller->name, response);
}

grpc::ServerWriteReactor<v1::ExportedLabel>* CampaignService::ExportLabels(grpc::CallbackServerContext* context,
                                                                           const v1::CampaignRequest* request) {
  using Stream = PagedStream<v1::ExportedLabel>;
  const auto campaign = FindForReading(*context, request->name());
  if (!campaign.ok()) return Stream::Refuse(executor_, campaign.status());
  const auto pages = std::make_shared<LabelPages>((*campaign)->store().folder().path());
  return Stream::Begin(executor_, [pages] { return pages->Next(); });
}

grpc::ServerWriteReactor<v1::ModelChunk>* CampaignService::GetModel(grpc::CallbackServerContext* context,
                                                                    const v1::GetModelRequest* request) {
  using Stream = PagedStream<v1::ModelChunk>;
  const auto campaign = FindForReading(*context, request->name());
  if (!campaign.ok()) return Stream::Refuse(executor_, campaign.status());
  if (const absl::Status status = CheckNumbers(*request); !status.ok()) return Stream::Refuse(executor_, status);
  const auto pages = std::make_shared<ModelPages>(*campaign, request->round());
  return Stream::Begin(executor_, [pages] { return pages->Next(); });
}

grpc::ServerUnaryReactor* CampaignService::Predict(grpc::CallbackServerContext* context,
                                                   const v1::PredictRequest* request, v1::PredictResponse* response) {
  return Handle(context, false, [this, request, response]() -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->name()));
    FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
    FULCRUM_ASSIGN_OR_RETURN(*response, campaign->Predict(*request));
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::CampaignEvent>* CampaignService::WatchCampaign(grpc::CallbackServerContext* context,
                                                                            const v1::CampaignRequest* request) {
  auto* stream = new MessageStream<v1::CampaignEvent>();
  const auto feed = stream->feed();
  Caller caller;
  const auto found = FindForReading(*context, request->name(), &caller);
  if (!found.ok()) {
    feed->End(found.status());
    return stream;
  }
  const std::shared_ptr<Campaign> campaign = *found;
  const auto tell = [feed, context](const v1::CampaignEvent& event) {
    // A watcher that does not keep up is let go: it comes back and sees the state as it is then. A status would wait
    // behind all that it does not read.
    if (!feed->Offer(event)) context->TryCancel();
    if (event.campaign().state() == v1::CAMPAIGN_STATE_DONE) feed->End(absl::OkStatus());
  };
  const std::int64_t id = campaign->events().Watch(
      tell, [feed] { feed->End(absl::UnavailableError("the daemon is stopping; watch again when it is back")); });
  const auto open = std::make_shared<AccessControl::OpenStream>(
      gatekeeper_.NoteStream(caller, [feed](const absl::Status& status) { feed->End(status); }));
  stream->set_on_end([campaign, id, open] { campaign->events().Unwatch(id); });
  v1::CampaignEvent now;
  *now.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  *now.mutable_campaign() = campaign->Describe();
  tell(now);
  return stream;
}

}  // namespace fulcrum::pipeline
