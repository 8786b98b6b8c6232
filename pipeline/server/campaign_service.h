// fulcrum.v1.CampaignService: the calls of those who run campaigns.
//
// Thin: it finds out who calls, and calls the campaign registry on threads of an executor, because reading a pool or a
// log takes its time. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/executor.h"

namespace fulcrum::pipeline {

class CampaignService final : public v1::CampaignService::CallbackService {
 public:
  /// All of them must outlive it.
  CampaignService(CampaignRegistry& campaigns, const AccessControl& gatekeeper, Executor& executor)
      : campaigns_(campaigns), gatekeeper_(gatekeeper), executor_(executor) {}

  grpc::ServerUnaryReactor* CreateCampaign(grpc::CallbackServerContext* context,
                                           const v1::CreateCampaignRequest* request, v1::Campaign* response) override;
  grpc::ServerUnaryReactor* GetCampaign(grpc::CallbackServerContext* context, const v1::GetCampaignRequest* request,
                                        v1::Campaign* response) override;
  grpc::ServerUnaryReactor* ListCampaigns(grpc::CallbackServerContext* context, const v1::ListCampaignsRequest* request,
                                          v1::ListCampaignsResponse* response) override;
  grpc::ServerUnaryReactor* StartCampaign(grpc::CallbackServerContext* context, const v1::CampaignRequest* request,
                                          v1::Campaign* response) override;
  grpc::ServerUnaryReactor* PauseCampaign(grpc::CallbackServerContext* context, const v1::CampaignRequest* request,
                                          v1::Campaign* response) override;
  grpc::ServerUnaryReactor* ResumeCampaign(grpc::CallbackServerContext* context, const v1::CampaignRequest* request,
                                           v1::Campaign* response) override;
  grpc::ServerUnaryReactor* StopCampaign(grpc::CallbackServerContext* context, const v1::CampaignRequest* request,
                                         v1::Campaign* response) override;
  grpc::ServerUnaryReactor* RetrainCampaign(grpc::CallbackServerContext* context, const v1::CampaignRequest* request,
                                            v1::Campaign* response) override;
  grpc::ServerUnaryReactor* DeleteCampaign(grpc::CallbackServerContext* context, const v1::CampaignRequest* request,
                                           v1::DeleteCampaignResponse* response) override;
  grpc::ServerReadReactor<v1::AppendItemsRequest>* AppendItems(grpc::CallbackServerContext* context,
                                                               v1::AppendItemsResponse* response) override;
  grpc::ServerUnaryReactor* ImportLabels(grpc::CallbackServerContext* context, const v1::ImportLabelsRequest* request,
                                         v1::ImportLabelsResponse* response) override;
  grpc::ServerWriteReactor<v1::ExportedLabel>* ExportLabels(grpc::CallbackServerContext* context,
                                                            const v1::CampaignRequest* request) override;
  grpc::ServerWriteReactor<v1::CampaignEvent>* WatchCampaign(grpc::CallbackServerContext* context,
                                                             const v1::CampaignRequest* request) override;
  grpc::ServerWriteReactor<v1::ModelChunk>* GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest* request) override;
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context, const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override;

 private:
  /// Runs `act` on the executor and finishes the call with what it says.
  grpc::ServerUnaryReactor* Handle(grpc::CallbackServerContext* context, bool needs_admin,
                                   std::function<absl::Status()> act);
  grpc::ServerUnaryReactor* Steer(grpc::CallbackServerContext* context, const v1::CampaignRequest* request,
                                  v1::Campaign* response, absl::Status (Campaign::*step)());
  /// `caller` may be null, and is set to who reads.
  absl::StatusOr<std::shared_ptr<Campaign>> FindForReading(const grpc::ServerContextBase& context,
                                                           const std::string& name, Caller* caller = nullptr) const;

  CampaignRegistry& campaigns_;
  const AccessControl& gatekeeper_;
  Executor& executor_;
};

}  // namespace fulcrum::pipeline
