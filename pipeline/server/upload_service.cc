#include <utility>

#include "pipeline/campaign/field_limits.h"
#include "pipeline/server/campaign_service.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {

grpc::ServerUnaryReactor* UploadService::CreateUpload(grpc::CallbackServerContext* context,
                                                      const v1::CreateUploadRequest* request,
                                                      v1::CreateUploadResponse* response) {
  return calls_.Run(context, CallerRole::kAdmin, *request,
                    [this, request, response](const Caller& caller) -> absl::Status {
                      FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
                      FULCRUM_ASSIGN_OR_RETURN(const ChangeOrder order, OrderOf(caller, request->request_id()));
                      FULCRUM_ASSIGN_OR_RETURN(*response->mutable_upload(), uploads_.Create(*request, order.by));
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* UploadService::WriteUpload(grpc::CallbackServerContext* context,
                                                     const v1::WriteUploadRequest* request,
                                                     v1::WriteUploadResponse* response) {
  return calls_.Run(context, CallerRole::kAdmin, *request,
                    [this, request, response](const Caller& caller) -> absl::Status {
                      FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
                      FULCRUM_RETURN_IF_ERROR(OrderOf(caller, request->request_id()).status());
                      FULCRUM_ASSIGN_OR_RETURN(*response->mutable_upload(), uploads_.Write(*request));
                      return absl::OkStatus();
                    });
}

grpc::ServerUnaryReactor* UploadService::GetUpload(grpc::CallbackServerContext* context,
                                                   const v1::GetUploadRequest* request,
                                                   v1::GetUploadResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_ASSIGN_OR_RETURN(*response->mutable_upload(), uploads_.Get(request->upload()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* UploadService::ListUploads(grpc::CallbackServerContext* context,
                                                     const v1::ListUploadsRequest* request,
                                                     v1::ListUploadsResponse* response) {
  return calls_.Run(context, CallerRole::kReader, *request, [this, request, response](const Caller&) -> absl::Status {
    FULCRUM_RETURN_IF_ERROR(CheckNumbers(*request));
    const std::size_t size = PageSize(request->page_size());
    auto page = uploads_.List(request->page_token(), size + 1);
    if (page.size() > size) {
      page.resize(size);
      response->set_next_page_token(page.back().id());
    }
    for (v1::Upload& upload : page) *response->add_uploads() = std::move(upload);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* UploadService::DeleteUpload(grpc::CallbackServerContext* context,
                                                      const v1::DeleteUploadRequest* request,
                                                      v1::DeleteUploadResponse* /*response*/) {
  return calls_.Run(context, CallerRole::kAdmin, *request, [this, request](const Caller& caller) -> absl::Status {
    FULCRUM_RETURN_IF_ERROR(OrderOf(caller, request->request_id()).status());
    return uploads_.Delete(request->upload());
  });
}

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
