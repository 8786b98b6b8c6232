// fulcrum.v1.CampaignService, OperationService, ItemService, AnnotatorService, AccessService, UploadService,
// ReportService and PoolService: the calls of those who run campaigns.
//
// Thin: they find out who calls, and call the campaigns on threads of an executor, because reading a pool or a log
// takes its time. Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "fulcrum/v1/access_service.grpc.pb.h"
#include "fulcrum/v1/annotator_service.grpc.pb.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/item_service.grpc.pb.h"
#include "fulcrum/v1/operation_service.grpc.pb.h"
#include "fulcrum/v1/pool_service.grpc.pb.h"
#include "fulcrum/v1/report_service.grpc.pb.h"
#include "fulcrum/v1/upload_service.grpc.pb.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/campaign/pool/upload_store.h"
#include "pipeline/report/reports.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/executor.h"

namespace fulcrum::pipeline {

/// An administrator of a daemon that asks for no tokens has no name.
inline constexpr char kUnnamedAdmin[] = "admin";

enum class CallerRole { kReader, kAdmin };

/// What is logged of a call besides who made it.
struct CallText {
  std::string call = {};
  std::string campaign = {};
  std::string request_id = {};
};

/// Logs what an administrator did: the log of a server is its audit log.
void LogAdminCall(const grpc::ServerContextBase& context, const Caller& caller, const CallText& text,
                  const absl::Status& status);

/// Runs the unary calls of administrators and readers. Both parts must outlive it.
class CallRunner {
 public:
  using Act = std::function<absl::Status(const Caller&)>;

  CallRunner(const AccessControl& access, Executor& executor) : access_(access), executor_(executor) {}

  /// Checks who calls, runs `act` on the executor and finishes the call with what it returns. Calls of administrators
  /// are logged, with the caller and the campaign that the request names. `request` must live as long as the call.
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, CallerRole role,
                                const google::protobuf::Message& request, Act act) const;
  /// The same for a call that changes nothing and computes: `act` runs in a StopScope, which ends if the caller has
  /// gone or the server stops.
  grpc::ServerUnaryReactor* RunCancellable(grpc::CallbackServerContext* context, CallerRole role,
                                           const google::protobuf::Message& request, Act act) const;
  const AccessControl& access() const { return access_; }
  Executor& executor() const { return executor_; }

 private:
  void RunOn(grpc::ServerUnaryReactor* reactor, grpc::CallbackServerContext* context, CallerRole role,
             const google::protobuf::Message& request, Act act) const;

  const AccessControl& access_;
  Executor& executor_;
};

/// Where calls run, so that none waits behind those that take longer.
struct CallLanes {
  Executor& quick;    ///< states and changes of campaigns
  Executor& files;    ///< what reads or writes files in small steps: exports, models, labels that are imported
  Executor& heavy;    ///< what works on a whole pool or log: appending, predicting, the quality of annotators
  Executor& closing;  ///< what waits for the end of rounds: deleting
  Executor& search;   ///< likely label errors: one search at a time, as each needs a matrix of all pairs of labels
};

class CampaignService final : public v1::CampaignService::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;

  /// All of them must outlive it.
  CampaignService(CampaignRegistry& campaigns, CampaignOperations& operations, const AccessControl& access,
                  const CallLanes& lanes)
      : campaigns_(campaigns),
        operations_(operations),
        calls_(access, lanes.quick),
        file_calls_(access, lanes.files),
        heavy_calls_(access, lanes.heavy),
        closing_calls_(access, lanes.closing) {}

  Reactor* CreateCampaign(Context* context, const v1::CreateCampaignRequest* request,
                          v1::CreateCampaignResponse* response) override;
  Reactor* GetCampaign(Context* context, const v1::GetCampaignRequest* request,
                       v1::GetCampaignResponse* response) override;
  Reactor* ListCampaigns(Context* context, const v1::ListCampaignsRequest* request,
                         v1::ListCampaignsResponse* response) override;
  Reactor* UpdateCampaign(Context* context, const v1::UpdateCampaignRequest* request,
                          v1::UpdateCampaignResponse* response) override;
  Reactor* StartCampaign(Context* context, const v1::StartCampaignRequest* request,
                         v1::StartCampaignResponse* response) override;
  Reactor* PauseCampaign(Context* context, const v1::PauseCampaignRequest* request,
                         v1::PauseCampaignResponse* response) override;
  Reactor* ResumeCampaign(Context* context, const v1::ResumeCampaignRequest* request,
                          v1::ResumeCampaignResponse* response) override;
  Reactor* StopCampaign(Context* context, const v1::StopCampaignRequest* request,
                        v1::StopCampaignResponse* response) override;
  Reactor* RetrainCampaign(Context* context, const v1::RetrainCampaignRequest* request,
                           v1::RetrainCampaignResponse* response) override;
  Reactor* DeleteCampaign(Context* context, const v1::DeleteCampaignRequest* request,
                          v1::DeleteCampaignResponse* response) override;
  grpc::ServerReadReactor<v1::AppendItemsRequest>* AppendItems(Context* context,
                                                               v1::AppendItemsResponse* response) override;
  grpc::ServerBidiReactor<v1::OfferItemsRequest, v1::OfferItemsResponse>* OfferItems(Context* context) override;
  Reactor* OfferItem(Context* context, const v1::OfferItemRequest* request, v1::OfferItemResponse* response) override;
  Reactor* ImportLabels(Context* context, const v1::ImportLabelsRequest* request,
                        v1::ImportLabelsResponse* response) override;
  grpc::ServerWriteReactor<v1::ExportLabelsResponse>* ExportLabels(Context* context,
                                                                   const v1::ExportLabelsRequest* request) override;
  grpc::ServerWriteReactor<v1::WatchCampaignResponse>* WatchCampaign(Context* context,
                                                                     const v1::WatchCampaignRequest* request) override;
  grpc::ServerWriteReactor<v1::GetModelResponse>* GetModel(Context* context,
                                                           const v1::GetModelRequest* request) override;
  Reactor* Predict(Context* context, const v1::PredictRequest* request, v1::PredictResponse* response) override;

 private:
  using Step = absl::Status (Campaign::*)(const ChangeOrder&);
  /// Starts, pauses or otherwise steers a campaign, and describes it.
  template <typename Request, typename Response>
  Reactor* Steer(Context* context, const Request* request, Response* response, Step step);
  /// Sets `caller` to who reads. Refusals are logged.
  absl::StatusOr<std::shared_ptr<Campaign>> FindForReading(const grpc::ServerContextBase& context,
                                                           const std::string& name, Caller& caller) const;

  CampaignRegistry& campaigns_;
  CampaignOperations& operations_;
  const CallRunner calls_;
  const CallRunner file_calls_;
  const CallRunner heavy_calls_;
  const CallRunner closing_calls_;
};

class OperationService final : public v1::OperationService::CallbackService {
 public:
  /// All of them must outlive it.
  OperationService(CampaignOperations& operations, const AccessControl& access, Executor& executor)
      : operations_(operations), calls_(access, executor) {}

  grpc::ServerUnaryReactor* GetOperation(grpc::CallbackServerContext* context, const v1::GetOperationRequest* request,
                                         v1::GetOperationResponse* response) override;
  grpc::ServerUnaryReactor* ListOperations(grpc::CallbackServerContext* context,
                                           const v1::ListOperationsRequest* request,
                                           v1::ListOperationsResponse* response) override;
  grpc::ServerUnaryReactor* CancelOperation(grpc::CallbackServerContext* context,
                                            const v1::CancelOperationRequest* request,
                                            v1::CancelOperationResponse* response) override;

 private:
  CampaignOperations& operations_;
  const CallRunner calls_;
};

class AnnotatorService final : public v1::AnnotatorService::CallbackService {
 public:
  /// All of them must outlive it.
  AnnotatorService(CampaignRegistry& campaigns, const AccessControl& access, const CallLanes& lanes)
      : campaigns_(campaigns),
        calls_(access, lanes.quick),
        heavy_calls_(access, lanes.heavy),
        search_calls_(access, lanes.search) {}

  grpc::ServerUnaryReactor* ListAnnotators(grpc::CallbackServerContext* context,
                                           const v1::ListAnnotatorsRequest* request,
                                           v1::ListAnnotatorsResponse* response) override;
  grpc::ServerUnaryReactor* PauseAnnotator(grpc::CallbackServerContext* context,
                                           const v1::PauseAnnotatorRequest* request,
                                           v1::PauseAnnotatorResponse* response) override;
  grpc::ServerUnaryReactor* ResumeAnnotator(grpc::CallbackServerContext* context,
                                            const v1::ResumeAnnotatorRequest* request,
                                            v1::ResumeAnnotatorResponse* response) override;
  grpc::ServerUnaryReactor* ListLabelErrors(grpc::CallbackServerContext* context,
                                            const v1::ListLabelErrorsRequest* request,
                                            v1::ListLabelErrorsResponse* response) override;

 private:
  CampaignRegistry& campaigns_;
  const CallRunner calls_;
  const CallRunner heavy_calls_;
  const CallRunner search_calls_;
};

class ItemService final : public v1::ItemService::CallbackService {
 public:
  /// All of them must outlive it.
  ItemService(CampaignRegistry& campaigns, const AccessControl& access, Executor& executor)
      : campaigns_(campaigns), calls_(access, executor) {}

  grpc::ServerUnaryReactor* ListItems(grpc::CallbackServerContext* context, const v1::ListItemsRequest* request,
                                      v1::ListItemsResponse* response) override;
  grpc::ServerUnaryReactor* GetItem(grpc::CallbackServerContext* context, const v1::GetItemRequest* request,
                                    v1::GetItemResponse* response) override;
  grpc::ServerUnaryReactor* ResolveItem(grpc::CallbackServerContext* context, const v1::ResolveItemRequest* request,
                                        v1::ResolveItemResponse* response) override;
  grpc::ServerUnaryReactor* ReturnItem(grpc::CallbackServerContext* context, const v1::ReturnItemRequest* request,
                                       v1::ReturnItemResponse* response) override;

 private:
  CampaignRegistry& campaigns_;
  const CallRunner calls_;
};

class AccessService final : public v1::AccessService::CallbackService {
 public:
  /// All of them must outlive it; `tokens` is null if the server uses none.
  AccessService(TokenStore* tokens, const AccessControl& access, Executor& executor)
      : tokens_(tokens), calls_(access, executor) {}

  grpc::ServerUnaryReactor* GetCaller(grpc::CallbackServerContext* context, const v1::GetCallerRequest* request,
                                      v1::GetCallerResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context, const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
                                        v1::RevokeTokenResponse* response) override;

 private:
  /// The answer to a request, for its repeats. In memory only: nothing on the disk gives access.
  struct CreatedToken {
    std::string by = {};
    std::string request_id = {};
    std::string owner = {};
    Role role = Role::kReader;
    std::string secret = {};
  };
  absl::StatusOr<std::string> CreateOnce(TokenStore& tokens, const CreatedToken& wanted);

  TokenStore* const tokens_;
  const CallRunner calls_;
  std::mutex mutex_;
  std::deque<CreatedToken> created_;  // the latest ones
};

class UploadService final : public v1::UploadService::CallbackService {
 public:
  /// All of them must outlive it.
  UploadService(UploadStore& uploads, const AccessControl& access, Executor& executor)
      : uploads_(uploads), calls_(access, executor) {}

  grpc::ServerUnaryReactor* CreateUpload(grpc::CallbackServerContext* context, const v1::CreateUploadRequest* request,
                                         v1::CreateUploadResponse* response) override;
  grpc::ServerUnaryReactor* WriteUpload(grpc::CallbackServerContext* context, const v1::WriteUploadRequest* request,
                                        v1::WriteUploadResponse* response) override;
  grpc::ServerUnaryReactor* GetUpload(grpc::CallbackServerContext* context, const v1::GetUploadRequest* request,
                                      v1::GetUploadResponse* response) override;
  grpc::ServerUnaryReactor* ListUploads(grpc::CallbackServerContext* context, const v1::ListUploadsRequest* request,
                                        v1::ListUploadsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteUpload(grpc::CallbackServerContext* context, const v1::DeleteUploadRequest* request,
                                         v1::DeleteUploadResponse* response) override;

 private:
  UploadStore& uploads_;
  const CallRunner calls_;
};

/// How many entries a page has: the default if `asked` is 0, and never more than the largest page.
std::size_t PageSize(int asked);

/// Who asks for a change, under which request id, and why. InvalidArgument for an id or a reason that is too long.
absl::StatusOr<ChangeOrder> OrderOf(const Caller& caller, const std::string& request_id,
                                    const std::string& reason = {});

class ReportService final : public v1::ReportService::CallbackService {
 public:
  /// All of them must outlive it.
  ReportService(CampaignRegistry& campaigns, const AccessControl& access, Executor& executor)
      : campaigns_(campaigns), calls_(access, executor) {}

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
  PoolService(PoolPlaces places, std::size_t memory_bytes, const AccessControl& access, Executor& executor)
      : places_(std::move(places)), memory_bytes_(memory_bytes), calls_(access, executor) {}

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
