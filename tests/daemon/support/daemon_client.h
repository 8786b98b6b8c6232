// A client of the daemon; every call has a deadline.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/item_service.grpc.pb.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "fulcrum/v1/operation_service.grpc.pb.h"

namespace fulcrum::testing {

/// Items per round, from the exported labels of a campaign.
using Batches = std::map<std::int64_t, std::set<std::string>>;

/// Returns a request id that is unique in the test.
std::string NewRequestId();

class DaemonClient {
 public:
  DaemonClient(int port, std::string token);
  DaemonClient(const std::shared_ptr<grpc::Channel>& channel, std::string token);

  /// Creates a campaign and waits for the end of the operation; the status is that of the call or of the operation.
  grpc::Status Create(const v1::CampaignSpec& spec);
  /// Only begins to.
  grpc::Status BeginCreate(const v1::CampaignSpec& spec, const std::string& request_id, v1::Operation* operation);
  grpc::Status GetOperation(const std::string& operation, v1::Operation* result);
  /// Returns the operation when it has ended.
  v1::Operation AwaitOperation(const std::string& operation);
  grpc::Status Start(const std::string& name) { return Steer(&v1::CampaignService::Stub::StartCampaign, name); }
  grpc::Status Pause(const std::string& name) { return Steer(&v1::CampaignService::Stub::PauseCampaign, name); }
  grpc::Status Resume(const std::string& name) { return Steer(&v1::CampaignService::Stub::ResumeCampaign, name); }
  grpc::Status Stop(const std::string& name) { return Steer(&v1::CampaignService::Stub::StopCampaign, name); }
  grpc::Status Retrain(const std::string& name) { return Steer(&v1::CampaignService::Stub::RetrainCampaign, name); }
  /// Changes the fields that the mask names.
  grpc::Status Update(const std::string& name, const v1::CampaignSpec& spec, const std::vector<std::string>& mask,
                      const std::string& request_id = NewRequestId());
  grpc::Status Delete(const std::string& name);
  grpc::Status TryGet(const std::string& name, v1::Campaign* campaign);
  /// These calls fail the test on an error.
  v1::Campaign Get(const std::string& name);
  /// `errors`: likely label errors are looked for.
  std::vector<v1::ExportedLabel> Export(const std::string& name, bool errors = false);
  Batches ExportedBatches(const std::string& name);
  /// Returns the reported models so far.
  std::vector<v1::ModelTrained> Models(const std::string& name);
  /// Returns the decision values of the latest model for these items.
  std::vector<double> Decisions(const std::string& name, const std::vector<std::string>& items);

  grpc::Status Append(const std::string& name, const std::string& request_id, const std::string& bytes,
                      v1::AppendItemsResponse* response);
  grpc::Status Predict(const v1::PredictRequest& request, v1::PredictResponse* response);
  /// Returns the model file of a round; 0 is the latest round.
  grpc::Status Model(const std::string& name, std::int64_t round, v1::ModelDescription* description,
                     std::string* bytes);
  grpc::Status Change(const v1::ChangeLabelsRequest& request, v1::ChangeLabelsResponse* response);

  grpc::Status Acquire(const v1::AcquireTasksRequest& request, v1::AcquireTasksResponse* response);
  grpc::Status Submit(const v1::SubmitLabelsRequest& request, v1::SubmitLabelsResponse* response);
  /// Waits for a task; fails the test if none arrives.
  v1::Task AcquireOne(const std::string& campaign, const std::string& annotator);
  /// Returns the status code of the result.
  int SubmitOne(const std::string& campaign, const std::string& annotator, const v1::Task& task,
                const std::string& value);

  v1::LabelingService::Stub& labeling() { return *labeling_; }
  v1::CampaignService::Stub& campaigns() { return *campaigns_; }
  v1::OperationService::Stub& operations() { return *operations_; }
  v1::ItemService::Stub& items() { return *items_; }
  void Prepare(grpc::ClientContext& context) const;

 private:
  template <typename Request, typename Response>
  grpc::Status Steer(grpc::Status (v1::CampaignService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const std::string& name) {
    grpc::ClientContext context;
    Prepare(context);
    Request request;
    request.set_campaign(name);
    request.set_request_id(NewRequestId());
    Response response;
    return (campaigns_.get()->*method)(&context, request, &response);
  }

  const std::string token_;
  std::unique_ptr<v1::LabelingService::Stub> labeling_;
  std::unique_ptr<v1::CampaignService::Stub> campaigns_;
  std::unique_ptr<v1::OperationService::Stub> operations_;
  std::unique_ptr<v1::ItemService::Stub> items_;
};

/// Receives the events of a campaign while the daemon runs.
class CampaignWatch {
 public:
  CampaignWatch(int port, const std::string& campaign, std::int64_t after_sequence = 0) : client_(port, "") {
    client_.Prepare(context_);
    v1::WatchCampaignRequest request;
    request.set_campaign(campaign);
    request.set_after_sequence(after_sequence);
    stream_ = client_.campaigns().WatchCampaign(&context_, request);
  }
  bool Next(v1::CampaignEvent* event) {
    v1::WatchCampaignResponse response;
    if (!stream_->Read(&response)) return false;
    *event = response.event();
    return true;
  }
  void Leave() { context_.TryCancel(); }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  DaemonClient client_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchCampaignResponse>> stream_;
};

/// Returns a request for tasks that waits for them.
v1::AcquireTasksRequest TasksWanted(const std::string& campaign, const std::string& annotator, int tasks);
/// Returns a request with the answer to a task.
v1::SubmitLabelsRequest AnswerOf(const std::string& campaign, const std::string& annotator, const v1::Task& task,
                                 const std::string& value);
void AddAnswer(const v1::Task& task, const std::string& value, v1::SubmitLabelsRequest& request);

}  // namespace fulcrum::testing
