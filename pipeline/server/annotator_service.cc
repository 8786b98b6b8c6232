#include "pipeline/campaign/campaign_annotators.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/campaign_service.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

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
    FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
    FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
    return pipeline::PauseAnnotator(*campaign, *request, order);
  });
}

grpc::ServerUnaryReactor* AnnotatorService::ResumeAnnotator(grpc::CallbackServerContext* context,
                                                            const v1::ResumeAnnotatorRequest* request,
                                                            v1::ResumeAnnotatorResponse* /*response*/) {
  return calls_.Run(context, CallerRole::kAdmin, *request, [this, request](const Caller& caller) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
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

}  // namespace fulcrum::pipeline
