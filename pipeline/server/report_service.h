// fulcrum.v1.ReportService and PoolService: what the page shows of campaigns, and what campaigns can be created from.
//
// Thin, like the services of campaign_service.h. Thread-safe.
#pragma once

#include <cstddef>

#include "fulcrum/v1/pool_service.grpc.pb.h"
#include "fulcrum/v1/report_service.grpc.pb.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/report/reports.h"
#include "pipeline/server/campaign_service.h"

namespace fulcrum::pipeline {

class ReportService final : public v1::ReportService::CallbackService {
 public:
  /// All of them must outlive it.
  ReportService(CampaignRegistry& campaigns, const AccessControl& gatekeeper, Executor& executor)
      : campaigns_(campaigns), calls_(gatekeeper, executor) {}

  grpc::ServerUnaryReactor* GetLabelReport(grpc::CallbackServerContext* context,
                                           const v1::GetLabelReportRequest* request,
                                           v1::GetLabelReportResponse* response) override;
  grpc::ServerUnaryReactor* GetPoolMap(grpc::CallbackServerContext* context, const v1::GetPoolMapRequest* request,
                                       v1::GetPoolMapResponse* response) override;

 private:
  CampaignRegistry& campaigns_;
  LabelReports reports_;
  PoolMaps maps_;
  const CallRunner calls_;
};

class PoolService final : public v1::PoolService::CallbackService {
 public:
  /// All of them must outlive it. `memory_bytes` is what a round may use.
  PoolService(PoolPlaces places, std::size_t memory_bytes, const AccessControl& gatekeeper, Executor& executor)
      : places_(std::move(places)), memory_bytes_(memory_bytes), calls_(gatekeeper, executor) {}

  grpc::ServerUnaryReactor* ListPoolFiles(grpc::CallbackServerContext* context, const v1::ListPoolFilesRequest* request,
                                          v1::ListPoolFilesResponse* response) override;
  grpc::ServerUnaryReactor* GetPoolPreview(grpc::CallbackServerContext* context,
                                           const v1::GetPoolPreviewRequest* request,
                                           v1::GetPoolPreviewResponse* response) override;

 private:
  const PoolPlaces places_;
  const std::size_t memory_bytes_;
  const CallRunner calls_;
};

}  // namespace fulcrum::pipeline
