#include <algorithm>

#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/report/reports.h"
#include "pipeline/server/campaign_service.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

grpc::ServerUnaryReactor* ItemService::ListItems(grpc::CallbackServerContext* context,
                                                 const v1::ListItemsRequest* request, v1::ListItemsResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
    FULCRUM_ASSIGN_OR_RETURN(*response, pipeline::ListItems(*campaign, *request, PageSize(request->page_size())));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ItemService::GetItem(grpc::CallbackServerContext* context, const v1::GetItemRequest* request,
                                               v1::GetItemResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
    FULCRUM_ASSIGN_OR_RETURN(*response, pipeline::GetItem(*campaign, *request));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ItemService::ResolveItem(grpc::CallbackServerContext* context,
                                                   const v1::ResolveItemRequest* request,
                                                   v1::ResolveItemResponse* response) {
  return calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller& caller) -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id(), request->reason()));
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        FULCRUM_ASSIGN_OR_RETURN(*response->mutable_item(), pipeline::ResolveItem(*campaign, *request, order));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ItemService::ReturnItem(grpc::CallbackServerContext* context,
                                                  const v1::ReturnItemRequest* request,
                                                  v1::ReturnItemResponse* response) {
  return calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller& caller) -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id(), request->reason()));
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        FULCRUM_ASSIGN_OR_RETURN(*response->mutable_item(), pipeline::ReturnItem(*campaign, *request, order));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AnnotatorService::ListAnnotators(grpc::CallbackServerContext* context,
                                                           const v1::ListAnnotatorsRequest* request,
                                                           v1::ListAnnotatorsResponse* response) {
  return heavy_calls_.RunCancellable(
      context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        FULCRUM_ASSIGN_OR_RETURN(*response, pipeline::ListAnnotators(*campaign));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* AnnotatorService::PauseAnnotator(grpc::CallbackServerContext* context,
                                                           const v1::PauseAnnotatorRequest* request,
                                                           v1::PauseAnnotatorResponse* /*response*/) {
  return calls_.Run(context, CallerRole::kAdmin, *request, [this, request](const Caller& caller) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id(), request->reason()));
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
    return pipeline::PauseAnnotator(*campaign, *request, order);
  });
}

grpc::ServerUnaryReactor* AnnotatorService::ResumeAnnotator(grpc::CallbackServerContext* context,
                                                            const v1::ResumeAnnotatorRequest* request,
                                                            v1::ResumeAnnotatorResponse* /*response*/) {
  return calls_.Run(context, CallerRole::kAdmin, *request, [this, request](const Caller& caller) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id(), request->reason()));
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
    return pipeline::ResumeAnnotator(*campaign, *request, order);
  });
}

grpc::ServerUnaryReactor* AnnotatorService::ListLabelErrors(grpc::CallbackServerContext* context,
                                                            const v1::ListLabelErrorsRequest* request,
                                                            v1::ListLabelErrorsResponse* response) {
  return search_calls_.RunCancellable(
      context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
        FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        FULCRUM_ASSIGN_OR_RETURN(*response, pipeline::ListLabelErrors(*campaign, PageSize(request->page_size())));
        return absl::OkStatus();
      });
}

namespace {

constexpr int kDefaultPoints = 1500;
constexpr int kMostPoints = 5000;

}  // namespace

grpc::ServerUnaryReactor* ReportService::GetLabelReport(grpc::CallbackServerContext* context,
                                                        const v1::GetLabelReportRequest* request,
                                                        v1::GetLabelReportResponse* response) {
  return calls_.RunCancellable(context, CallerRole::kReader, *request,
                               [this, request, response](const Caller&) -> absl::Status {
                                 FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
                                 FULCRUM_ASSIGN_OR_RETURN(*response, reports_.Get(*campaign));
                                 return absl::OkStatus();
                               });
}

grpc::ServerUnaryReactor* ReportService::GetPoolMap(grpc::CallbackServerContext* context,
                                                    const v1::GetPoolMapRequest* request,
                                                    v1::GetPoolMapResponse* response) {
  return calls_.RunCancellable(
      context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
        FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        const int points = request->max_points() == 0 ? kDefaultPoints : std::min(request->max_points(), kMostPoints);
        FULCRUM_ASSIGN_OR_RETURN(*response, maps_.Get(*campaign, static_cast<std::size_t>(points)));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* PoolService::ListPoolFiles(grpc::CallbackServerContext* context,
                                                     const v1::ListPoolFilesRequest* request,
                                                     v1::ListPoolFilesResponse* response) {
  return calls_.RunCancellable(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller&) -> absl::Status {
        FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
        FULCRUM_ASSIGN_OR_RETURN(*response,
                                 pipeline::ListPoolFiles(places_.root, *request, PageSize(request->page_size())));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* PoolService::GetPoolPreview(grpc::CallbackServerContext* context,
                                                      const v1::GetPoolPreviewRequest* request,
                                                      v1::GetPoolPreviewResponse* response) {
  return calls_.RunCancellable(context, CallerRole::kAdmin, *request,
                               [this, request, response](const Caller&) -> absl::Status {
                                 FULCRUM_ASSIGN_OR_RETURN(*response, PreviewPool(places_, memory_bytes_, *request));
                                 return absl::OkStatus();
                               });
}

}  // namespace fulcrum::pipeline
