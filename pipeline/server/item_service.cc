#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/field_limits.h"
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
        FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
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
        FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
        FULCRUM_ASSIGN_OR_RETURN(const auto campaign, campaigns_.Find(request->campaign()));
        FULCRUM_ASSIGN_OR_RETURN(*response->mutable_item(), pipeline::ReturnItem(*campaign, *request, order));
        return absl::OkStatus();
      });
}

}  // namespace fulcrum::pipeline
