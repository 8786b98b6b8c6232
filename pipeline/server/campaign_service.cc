#include "pipeline/server/campaign_service.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/server/streams/bidirectional_streams.h"
#include "pipeline/server/streams/campaign_streams.h"
#include "pipeline/text/status.h"
#include "pipeline/text/structured_log.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "storage/rules/label_rules.h"

namespace fulcrum::pipeline {
namespace {

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

CampaignService::Reactor* CampaignService::CreateCampaign(Context* context, const v1::CreateCampaignRequest* request,
                                                          v1::CreateCampaignResponse* response) {
  return calls_.Run(context, CallerRole::kAdmin, *request,
                    [this, request, response](const Caller& caller) -> absl::Status {
                      if (request->validate_only()) return operations_.Check(*request);
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
                      std::string reason;
                      if constexpr (requires { request->reason(); }) reason = request->reason();
                      FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id(), reason));
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
  return closing_calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller& caller) -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
        FULCRUM_ASSIGN_OR_RETURN(*response->mutable_trash_folder(), campaigns_.Delete(request->campaign(), order));
        return absl::OkStatus();
      });
}

CampaignService::Reactor* CampaignService::ImportLabels(Context* context, const v1::ImportLabelsRequest* request,
                                                        v1::ImportLabelsResponse* response) {
  return file_calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller&) -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        FULCRUM_RETURN_IF_ERROR(CheckImport(*campaign, *request));
        storage::ImportRequest import;
        import.source = request->source();
        import.request_id = request->request_id();
        const auto pool = campaign->pool();
        for (const auto& entry : request->labels()) {
          const auto row = pool->ids().Find(entry.item_id());
          import.labels.push_back(
              {.item = entry.item_id(), .value = entry.value(), .cost = row ? pool->CostOf(*row) : 0});
        }
        FULCRUM_ASSIGN_OR_RETURN(const storage::ImportAnswer answer,
                                 campaign->store().Run(storage::ImportLabels, std::move(import)));
        response->set_imported(answer.labels);
        return absl::OkStatus();
      });
}

absl::StatusOr<std::shared_ptr<Campaign>> CampaignService::FindForReading(const grpc::ServerContextBase& context,
                                                                          const std::string& name,
                                                                          Caller& caller) const {
  const AccessControl& access = calls_.access();
  FULCRUM_ASSIGN_OR_RETURN(caller, access.Admit(context));
  if (const absl::Status status = AccessControl::RequireReading(caller); !status.ok()) {
    access.LogRefusal(context, caller.name, status);
    return status;
  }
  return campaigns_.Find(name);
}

namespace {

absl::StatusOr<Caller> AdmitAdmin(const AccessControl& access, const grpc::ServerContextBase& context) {
  FULCRUM_ASSIGN_OR_RETURN(Caller caller, access.Admit(context));
  if (const absl::Status status = AccessControl::RequireAdmin(caller); !status.ok()) {
    access.LogRefusal(context, caller.name, status);
    return status;
  }
  return caller;
}

}  // namespace

grpc::ServerBidiReactor<v1::OfferItemsRequest, v1::OfferItemsResponse>* CampaignService::OfferItems(Context* context) {
  const AccessControl& access = calls_.access();
  const absl::StatusOr<Caller> caller = AdmitAdmin(access, *context);
  const Caller who = caller.value_or(Caller{});
  OfferStream::Parts parts{.executor = file_calls_.executor(),
                           .caller = {access, who},
                           .by = who.name.empty() ? kUnnamedAdmin : who.name,
                           .find = [this](const std::string& name) { return campaigns_.Find(name); },
                           .on_end =
                               [context, who](const std::string& campaign, const absl::Status& ended) {
                                 LogAdminCall(*context, who, {.call = "OfferItems", .campaign = campaign}, ended);
                               }};
  if (!caller.ok()) return OfferStream::Refuse(std::move(parts), caller.status());
  return OfferStream::Begin(std::move(parts));
}

CampaignService::Reactor* CampaignService::OfferItem(Context* context, const v1::OfferItemRequest* request,
                                                     v1::OfferItemResponse* response) {
  return file_calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller& caller) -> absl::Status {
        FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
        OfferRequest offer{.by = caller.name.empty() ? kUnnamedAdmin : caller.name,
                           .request_id = request->request_id(),
                           .feature_names = request->feature_names()};
        *offer.items.Add() = request->item();
        FULCRUM_ASSIGN_OR_RETURN(auto answers, OfferTo(campaigns_.Find(request->campaign()), std::move(offer)));
        *response->mutable_answer() = std::move(answers.front());
        return absl::OkStatus();
      });
}

grpc::ServerReadReactor<v1::AppendItemsRequest>* CampaignService::AppendItems(Context* context,
                                                                              v1::AppendItemsResponse* response) {
  const AccessControl& access = calls_.access();
  const absl::StatusOr<Caller> caller = AdmitAdmin(access, *context);
  if (!caller.ok()) return new RefusedUpload<v1::AppendItemsRequest>(caller.status());
  return UploadStream<v1::AppendItemsRequest>::Begin(std::make_shared<AppendStream>(
      heavy_calls_.executor(), StreamCaller{access, *caller},
      [this](const std::string& name) { return campaigns_.Find(name); }, operations_,
      caller->name.empty() ? kUnnamedAdmin : caller->name, response,
      [context, caller = *caller](const v1::AppendItemsRequest::Begin& begin, const absl::Status& ended) {
        LogAdminCall(*context, caller,
                     {.call = "AppendItems", .campaign = begin.campaign(), .request_id = begin.request_id()}, ended);
      }));
}

grpc::ServerWriteReactor<v1::ExportLabelsResponse>* CampaignService::ExportLabels(
    Context* context, const v1::ExportLabelsRequest* request) {
  using Stream = PagedStream<v1::ExportLabelsResponse>;
  Caller caller;
  const auto campaign = FindForReading(*context, request->campaign(), caller);
  if (!campaign.ok()) return Stream::Refuse(file_calls_.executor(), campaign.status());
  // It has the state of the campaign in memory, until it is read to its end.
  const auto held = calls_.access().HoldStream(caller);
  if (!held.ok()) return Stream::Refuse(file_calls_.executor(), held.status());
  LabelPages::FindErrors errors;
  if (request->errors()) errors = [campaign = *campaign] { return FindLikelyErrors(*campaign); };
  const auto pages = std::make_shared<LabelPages>((*campaign)->store().folder().path(), std::move(errors));
  // The first page takes the whole log.
  return Stream::Begin(
      file_calls_.executor(), {calls_.access(), caller}, [pages, held = *held] { return pages->Next(); },
      &heavy_calls_.executor());
}

grpc::ServerWriteReactor<v1::GetModelResponse>* CampaignService::GetModel(Context* context,
                                                                          const v1::GetModelRequest* request) {
  using Stream = PagedStream<v1::GetModelResponse>;
  Caller caller;
  const auto campaign = FindForReading(*context, request->campaign(), caller);
  if (!campaign.ok()) return Stream::Refuse(file_calls_.executor(), campaign.status());
  if (const absl::Status status = CheckNumbers(*request); !status.ok())
    return Stream::Refuse(file_calls_.executor(), status);
  std::shared_ptr<const void> held;
  if (!ModelPages::ReadsByRange(request->format())) {
    auto hold = calls_.access().HoldStream(caller);
    if (!hold.ok()) return Stream::Refuse(file_calls_.executor(), hold.status());
    held = *std::move(hold);
  }
  const auto pages = std::make_shared<ModelPages>(*campaign, request->round(), request->format());
  return Stream::Begin(file_calls_.executor(), {calls_.access(), caller}, [pages, held] { return pages->Next(); });
}

CampaignService::Reactor* CampaignService::Predict(Context* context, const v1::PredictRequest* request,
                                                   v1::PredictResponse* response) {
  return heavy_calls_.RunCancellable(
      context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
        FULCRUM_ASSIGN_OR_RETURN(*response, campaign->Predict(*request));
        return absl::OkStatus();
      });
}

namespace {

using WatchFeed = MessageFeed<v1::WatchCampaignResponse>;

/// A watcher, from its call to its end.
struct Watching {
  std::mutex mutex;
  bool ended = false;  // guarded by mutex, like the others; `context` is valid until then
  std::int64_t id = 0;
  AccessControl::OpenStream open = {};
};

void BeginToWatch(const std::shared_ptr<Campaign>& campaign, const std::shared_ptr<WatchFeed>& feed,
                  grpc::CallbackServerContext* context, std::int64_t after, Watching& watching) {
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
  const std::int64_t kept_after = campaign->events().kept_after();
  if (after > 0 && after < kept_after) {
    const auto missed = ReadEvents(campaign->folder(), campaign->name(), after, kept_after);
    if (!missed.ok()) return feed->End(missed.status());
    for (const v1::CampaignEvent& event : *missed) tell(event);
  }
  watching.id = campaign->events().Watch(after == 0 ? 0 : std::max(after, kept_after), tell, [feed] {
    feed->End(absl::UnavailableError("the daemon is stopping, or the campaign is deleted; watch again later"));
  });
  *caught_up = true;
  v1::CampaignEvent now;
  *now.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  // Before the state is described: what happens between the two is in both.
  now.set_sequence(campaign->events().resume_point());
  *now.mutable_campaign() = campaign->Describe();
  tell(now);
}

}  // namespace

grpc::ServerWriteReactor<v1::WatchCampaignResponse>* CampaignService::WatchCampaign(
    Context* context, const v1::WatchCampaignRequest* request) {
  auto* stream = new MessageStream<v1::WatchCampaignResponse>();
  const auto feed = stream->feed();
  Caller caller;
  const auto found = FindForReading(*context, request->campaign(), caller);
  absl::Status status = found.status();
  if (status.ok()) status = CheckNumbers(*request);
  if (!status.ok()) {
    feed->End(status);
    return stream;
  }
  const std::shared_ptr<Campaign> campaign = *found;
  const auto watching = std::make_shared<Watching>();
  watching->open = calls_.access().NoteStream(caller, [feed](const absl::Status& why) { feed->End(why); });
  stream->set_on_end([campaign, watching] {
    const std::scoped_lock lock(watching->mutex);
    watching->ended = true;
    if (watching->id != 0) campaign->events().Unwatch(watching->id);
    watching->open = {};
  });
  const std::int64_t after = request->after_sequence();
  const auto begin = [campaign, watching, feed, context, after] {
    const std::scoped_lock lock(watching->mutex);
    if (!watching->ended) BeginToWatch(campaign, feed, context, after, *watching);
  };
  // What a process before this one did is in the log, which takes its time to read.
  if (after == 0 || after >= campaign->events().kept_after()) {
    begin();
  } else if (!file_calls_.executor().Submit(begin)) {
    feed->End(Executor::Busy());
  }
  return stream;
}

}  // namespace fulcrum::pipeline
