#include "pipeline/server/report_service.h"

#include <algorithm>

#include "pipeline/campaign/field_limits.h"
#include "pipeline/report/reports.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
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
