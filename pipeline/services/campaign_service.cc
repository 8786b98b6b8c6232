#include "pipeline/services/campaign_service.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/services/grpc_status.h"
#include "pipeline/services/label_requests.h"
#include "pipeline/services/message_stream.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_reader.h"
#include "storage/label_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kLargestPage = 1000;

const char* KindName(storage::EventKind kind) {
  switch (kind) {
    case storage::EventKind::kLabelSubmitted:
      return "label";
    case storage::EventKind::kLabelChanged:
      return "change";
    case storage::EventKind::kLabelWithdrawn:
      return "withdrawal";
    case storage::EventKind::kLabelImported:
      return "import";
    default:
      return nullptr;
  }
}

v1::ExportedLabel ToExported(const storage::Event& event) {
  v1::ExportedLabel label;
  label.set_sequence(event.sequence);
  label.set_item_id(event.item);
  label.set_value(event.value);
  label.set_annotator(event.annotator);
  *label.mutable_time() = google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(event.at));
  label.set_round(event.round);
  label.set_lease_id(event.lease);
  label.set_cost(event.cost);
  label.set_kind(KindName(event.kind));
  return label;
}

absl::Status ExportTo(const std::string& folder, MessageFeed<v1::ExportedLabel>& feed) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(folder));
  return reader->VisitEvents(1, storage::kEndOfLog, [&](const storage::Event& event) {
    if (KindName(event.kind) == nullptr || feed.Put(ToExported(event))) return absl::OkStatus();
    return absl::CancelledError("the client has gone");
  });
}

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
  if (status.ok()) status = needs_admin ? Gatekeeper::RequireAdmin(*caller) : Gatekeeper::RequireReading(*caller);
  if (!status.ok()) {
    reactor->Finish(ToGrpcStatus(status));
    return reactor;
  }
  if (!executor_.Submit([reactor, act = std::move(act)] { reactor->Finish(ToGrpcStatus(act())); })) {
    reactor->Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the server is busy; try again"));
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
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->name()));
    *response = campaign->Describe();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* CampaignService::ListCampaigns(grpc::CallbackServerContext* context,
                                                         const v1::ListCampaignsRequest* request,
                                                         v1::ListCampaignsResponse* response) {
  return Handle(context, false, [this, request, response] {
    const int size = request->page_size() <= 0 ? kDefaultPage : std::min(request->page_size(), kLargestPage);
    const auto page = campaigns_.List(request->page_token(), static_cast<std::size_t>(size) + 1);
    for (std::size_t i = 0; i < page.size() && i < static_cast<std::size_t>(size); ++i) {
      *response->add_campaigns() = page[i]->Describe();
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
                                                                          const std::string& name) const {
  FULCRUM_ASSIGN_OR_RETURN(const Caller caller, gatekeeper_.Admit(context));
  FULCRUM_RETURN_IF_ERROR(Gatekeeper::RequireReading(caller));
  return campaigns_.Find(name);
}

grpc::ServerWriteReactor<v1::ExportedLabel>* CampaignService::ExportLabels(grpc::CallbackServerContext* context,
                                                                           const v1::CampaignRequest* request) {
  auto* stream = new MessageStream<v1::ExportedLabel>();
  const auto feed = stream->feed();
  const auto campaign = FindForReading(*context, request->name());
  if (!campaign.ok()) {
    feed->End(campaign.status());
    return stream;
  }
  const std::string folder = (*campaign)->store().folder().path();
  if (!executor_.Submit([feed, folder] { feed->End(ExportTo(folder, *feed)); })) {
    feed->End(absl::ResourceExhaustedError("the server is busy; try again"));
  }
  return stream;
}

grpc::ServerWriteReactor<v1::CampaignEvent>* CampaignService::WatchCampaign(grpc::CallbackServerContext* context,
                                                                            const v1::CampaignRequest* request) {
  auto* stream = new MessageStream<v1::CampaignEvent>();
  const auto feed = stream->feed();
  const auto found = FindForReading(*context, request->name());
  if (!found.ok()) {
    feed->End(found.status());
    return stream;
  }
  const std::shared_ptr<Campaign> campaign = *found;
  const auto tell = [feed](const v1::CampaignEvent& event) {
    // A watcher that does not keep up is let go: it comes back and sees the state as it is then.
    if (!feed->Offer(event)) feed->End(absl::ResourceExhaustedError("the watcher does not keep up; watch again"));
    if (event.campaign().state() == v1::CAMPAIGN_STATE_DONE) feed->End(absl::OkStatus());
  };
  const std::int64_t id = campaign->events().Watch(
      tell, [feed] { feed->End(absl::UnavailableError("the daemon is stopping; watch again when it is back")); });
  stream->set_on_end([campaign, id] { campaign->events().Unwatch(id); });
  v1::CampaignEvent now;
  *now.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  *now.mutable_campaign() = campaign->Describe();
  tell(now);
  return stream;
}

}  // namespace fulcrum::pipeline
