// fulcrum.v1.ModelService: what processes with a model of the user's own ask.
//
// Thin: it says who calls and for which campaign, and hands over. No handler waits: reading rows and storing
// predictions run on threads of the executor. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/model_service.grpc.pb.h"
#include "fulcrum/v1/model_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/executor.h"
#include "pipeline/server/task_waiters.h"
#include "storage/rules/model_rules.h"

namespace fulcrum::pipeline {

class ModelService final : public v1::ModelService::CallbackService {
 public:
  /// All of them must outlive it. `waiters` are those of model tasks; reading and storing run in `lane`.
  ModelService(CampaignRegistry& campaigns, const AccessControl& gatekeeper, TaskWaiters& waiters, ReplySender& replies,
               Executor& lane)
      : campaigns_(campaigns), gatekeeper_(gatekeeper), waiters_(waiters), replies_(replies), lane_(lane) {}

  grpc::ServerUnaryReactor* AcquireModelTask(grpc::CallbackServerContext* context,
                                             const v1::AcquireModelTaskRequest* request,
                                             v1::AcquireModelTaskResponse* response) override;
  grpc::ServerUnaryReactor* RenewModelTask(grpc::CallbackServerContext* context,
                                           const v1::RenewModelTaskRequest* request,
                                           v1::RenewModelTaskResponse* response) override;
  grpc::ServerUnaryReactor* ReleaseModelTask(grpc::CallbackServerContext* context,
                                             const v1::ReleaseModelTaskRequest* request,
                                             v1::ReleaseModelTaskResponse* response) override;
  grpc::ServerWriteReactor<v1::GetModelLabelsResponse>* GetModelLabels(
      grpc::CallbackServerContext* context, const v1::GetModelLabelsRequest* request) override;
  grpc::ServerWriteReactor<v1::GetModelRowsResponse>* GetModelRows(grpc::CallbackServerContext* context,
                                                                   const v1::GetModelRowsRequest* request) override;
  grpc::ServerReadReactor<v1::SubmitPredictionsRequest>* SubmitPredictions(
      grpc::CallbackServerContext* context, v1::SubmitPredictionsResponse* response) override;

 private:
  /// A process's call, admitted.
  struct Admitted {
    std::shared_ptr<Campaign> campaign = {};
    Caller caller = {};
    std::string process = {};
  };
  /// A call for the task, while it waits.
  struct Acquiring;

  /// FailedPrecondition for a campaign that uses the built-in classifier.
  absl::StatusOr<std::shared_ptr<Campaign>> FindCampaign(const std::string& name) const;
  absl::StatusOr<Admitted> Admit(const grpc::ServerContextBase& context, const std::string& campaign,
                                 const std::string& process) const;
  /// The same for a call that only reads what a task names.
  absl::StatusOr<std::shared_ptr<const ModelTaskData>> AdmitReader(const grpc::ServerContextBase& context,
                                                                   const std::string& campaign, std::int64_t task,
                                                                   Caller& caller) const;
  void Try(const std::shared_ptr<Acquiring>& call, bool again);
  void Receive(const std::shared_ptr<Acquiring>& call, bool again, std::shared_ptr<const ModelTaskData> data,
               const absl::StatusOr<storage::AcquireModelAnswer>& answer);
  void WaitOrGiveUp(const std::shared_ptr<Acquiring>& call, bool again);

  CampaignRegistry& campaigns_;
  const AccessControl& gatekeeper_;
  TaskWaiters& waiters_;
  ReplySender& replies_;
  Executor& lane_;
};

}  // namespace fulcrum::pipeline
