#include <utility>

#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/campaign_service.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

grpc::ServerUnaryReactor* OperationService::GetOperation(grpc::CallbackServerContext* context,
                                                         const v1::GetOperationRequest* request,
                                                         v1::GetOperationResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(*response->mutable_operation(), operations_.Get(request->operation()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* OperationService::ListOperations(grpc::CallbackServerContext* context,
                                                           const v1::ListOperationsRequest* request,
                                                           v1::ListOperationsResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
    const std::size_t size = PageSize(request->page_size());
    auto page = operations_.List(request->page_token(), size + 1);
    if (page.size() > size) {
      page.resize(size);
      response->set_next_page_token(page.back().name());
    }
    for (v1::Operation& operation : page) *response->add_operations() = std::move(operation);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* OperationService::CancelOperation(grpc::CallbackServerContext* context,
                                                            const v1::CancelOperationRequest* request,
                                                            v1::CancelOperationResponse* response) {
  return calls_.Run(
      context, CallerRole::kAdmin, *request, [this, request, response](const Caller& caller) -> absl::Status {
        FULCRUM_RETURN_IF_ERROR(OrderOf(caller, request->request_id()).status());
        FULCRUM_ASSIGN_OR_RETURN(*response->mutable_operation(), operations_.Cancel(request->operation()));
        return absl::OkStatus();
      });
}

}  // namespace fulcrum::pipeline
