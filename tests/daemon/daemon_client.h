// A client of the daemon; every call has a deadline.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"

namespace fulcrum::testing {

/// Items per round, from the exported labels of a campaign.
using Batches = std::map<std::int64_t, std::set<std::string>>;

/// Returns a request id that is unique in the test.
std::string NewRequestId();

class DaemonClient {
 public:
  DaemonClient(int port, std::string token);
  DaemonClient(const std::shared_ptr<grpc::Channel>& channel, std::string token);

  grpc::Status Create(const v1::CampaignSpec& spec);
  grpc::Status Start(const std::string& name) { return Steer(&v1::CampaignService::Stub::StartCampaign, name); }
  grpc::Status Pause(const std::string& name) { return Steer(&v1::CampaignService::Stub::PauseCampaign, name); }
  grpc::Status Resume(const std::string& name) { return Steer(&v1::CampaignService::Stub::ResumeCampaign, name); }
  grpc::Status Stop(const std::string& name) { return Steer(&v1::CampaignService::Stub::StopCampaign, name); }
  grpc::Status Retrain(const std::string& name) { return Steer(&v1::CampaignService::Stub::RetrainCampaign, name); }
  grpc::Status Delete(const std::string& name);
  grpc::Status TryGet(const std::string& name, v1::Campaign* campaign);
  /// These calls fail the test on an error.
  v1::Campaign Get(const std::string& name);
  std::vector<v1::ExportedLabel> Export(const std::string& name);
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
  void Prepare(grpc::ClientContext& context) const;

 private:
  using SteerMethod = grpc::Status (v1::CampaignService::Stub::*)(grpc::ClientContext*, const v1::CampaignRequest&,
                                                                  v1::Campaign*);
  grpc::Status Steer(SteerMethod method, const std::string& name);

  const std::string token_;
  std::unique_ptr<v1::LabelingService::Stub> labeling_;
  std::unique_ptr<v1::CampaignService::Stub> campaigns_;
};

/// Returns a request for tasks that waits for them.
v1::AcquireTasksRequest TasksWanted(const std::string& campaign, const std::string& annotator, int tasks);
/// Returns a request with the answer to a task.
v1::SubmitLabelsRequest AnswerOf(const std::string& campaign, const std::string& annotator, const v1::Task& task,
                                 const std::string& value);
void AddAnswer(const v1::Task& task, const std::string& value, v1::SubmitLabelsRequest& request);

}  // namespace fulcrum::testing
