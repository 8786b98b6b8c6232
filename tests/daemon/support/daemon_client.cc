#include "tests/daemon/support/daemon_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fulcrum::testing {
namespace {

constexpr std::chrono::seconds kDeadline{60};

std::shared_ptr<grpc::Channel> Connect(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

std::string NewRequestId() {
  static std::atomic<std::int64_t> next{0};
  return absl::StrCat("test-", getpid(), "-", ++next);
}

DaemonClient::DaemonClient(int port, std::string token) : DaemonClient(Connect(port), std::move(token)) {}

DaemonClient::DaemonClient(const std::shared_ptr<grpc::Channel>& channel, std::string token)
    : token_(std::move(token)),
      labeling_(v1::LabelingService::NewStub(channel)),
      campaigns_(v1::CampaignService::NewStub(channel)),
      operations_(v1::OperationService::NewStub(channel)),
      items_(v1::ItemService::NewStub(channel)) {}

void DaemonClient::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  // Waits for a restarting daemon instead of polling it.
  context.set_wait_for_ready(true);
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
}

grpc::Status DaemonClient::Create(const v1::CampaignSpec& spec) {
  v1::Operation operation;
  const grpc::Status status = BeginCreate(spec, NewRequestId(), &operation);
  if (!status.ok()) return status;
  operation = AwaitOperation(operation.name());
  if (operation.state() == v1::OPERATION_STATE_SUCCEEDED) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(operation.error().code()), operation.error().message(),
          operation.error().details()};
}

grpc::Status DaemonClient::BeginCreate(const v1::CampaignSpec& spec, const std::string& request_id,
                                       v1::Operation* operation) {
  grpc::ClientContext context;
  Prepare(context);
  v1::CreateCampaignRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(request_id);
  v1::CreateCampaignResponse response;
  const grpc::Status status = campaigns_->CreateCampaign(&context, request, &response);
  *operation = response.operation();
  return status;
}

grpc::Status DaemonClient::GetOperation(const std::string& operation, v1::Operation* result) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetOperationRequest request;
  request.set_operation(operation);
  v1::GetOperationResponse response;
  const grpc::Status status = operations_->GetOperation(&context, request, &response);
  *result = response.operation();
  return status;
}

v1::Operation DaemonClient::AwaitOperation(const std::string& operation) {
  v1::Operation result;
  grpc::Status status = GetOperation(operation, &result);
  while (status.ok() && !result.has_ended_at()) {
    // There is no call that waits for it.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    status = GetOperation(operation, &result);
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  return result;
}

grpc::Status DaemonClient::Update(const std::string& name, const v1::CampaignSpec& spec,
                                  const std::vector<std::string>& mask, const std::string& request_id) {
  grpc::ClientContext context;
  Prepare(context);
  v1::UpdateCampaignRequest request;
  request.set_campaign(name);
  *request.mutable_spec() = spec;
  for (const std::string& path : mask) request.mutable_update_mask()->add_paths(path);
  request.set_request_id(request_id);
  v1::UpdateCampaignResponse response;
  return campaigns_->UpdateCampaign(&context, request, &response);
}

grpc::Status DaemonClient::Delete(const std::string& name) {
  return Steer(&v1::CampaignService::Stub::DeleteCampaign, name);
}

grpc::Status DaemonClient::TryGet(const std::string& name, v1::Campaign* campaign) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetCampaignRequest request;
  request.set_campaign(name);
  v1::GetCampaignResponse response;
  const grpc::Status status = campaigns_->GetCampaign(&context, request, &response);
  *campaign = response.campaign();
  return status;
}

v1::Campaign DaemonClient::Get(const std::string& name) {
  v1::Campaign campaign;
  const grpc::Status status = TryGet(name, &campaign);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return campaign;
}

std::vector<v1::ExportedLabel> DaemonClient::Export(const std::string& name, bool errors) {
  grpc::ClientContext context;
  Prepare(context);
  v1::ExportLabelsRequest request;
  request.set_campaign(name);
  request.set_errors(errors);
  const auto stream = campaigns_->ExportLabels(&context, request);
  std::vector<v1::ExportedLabel> labels;
  for (v1::ExportLabelsResponse page; stream->Read(&page);) {
    labels.insert(labels.end(), page.labels().begin(), page.labels().end());
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return labels;
}

Batches DaemonClient::ExportedBatches(const std::string& name) {
  Batches batches;
  for (const v1::ExportedLabel& label : Export(name)) batches[label.round()].insert(label.item_id());
  return batches;
}

std::vector<v1::ModelTrained> DaemonClient::Models(const std::string& name) {
  grpc::ClientContext context;
  Prepare(context);
  v1::WatchCampaignRequest request;
  request.set_campaign(name);
  const auto stream = campaigns_->WatchCampaign(&context, request);
  std::vector<v1::ModelTrained> models;
  // All existing models are sent before the state of the campaign.
  for (v1::WatchCampaignResponse response; stream->Read(&response) && response.event().has_model();) {
    models.push_back(response.event().model());
  }
  context.TryCancel();
  stream->Finish();
  return models;
}

std::vector<double> DaemonClient::Decisions(const std::string& name, const std::vector<std::string>& items) {
  v1::PredictRequest request;
  request.set_campaign(name);
  for (const std::string& item : items) request.add_item_ids(item);
  v1::PredictResponse response;
  const grpc::Status status = Predict(request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<double> decisions;
  for (const v1::Prediction& prediction : response.predictions()) decisions.push_back(prediction.decision_values(0));
  return decisions;
}

grpc::Status DaemonClient::Append(const std::string& name, const std::string& request_id, const std::string& bytes,
                                  v1::AppendItemsResponse* response) {
  constexpr std::size_t kChunk = 1000;
  grpc::ClientContext context;
  Prepare(context);
  const auto stream = campaigns_->AppendItems(&context, response);
  v1::AppendItemsRequest part;
  part.mutable_begin()->set_campaign(name);
  part.mutable_begin()->set_request_id(request_id);
  bool open = stream->Write(part);
  for (std::size_t sent = 0; open && sent < bytes.size(); sent += kChunk) {
    part.set_chunk(bytes.substr(sent, kChunk));
    open = stream->Write(part);
  }
  part.set_end(true);
  if (open) stream->Write(part);
  stream->WritesDone();
  return stream->Finish();
}

grpc::Status DaemonClient::Predict(const v1::PredictRequest& request, v1::PredictResponse* response) {
  grpc::ClientContext context;
  Prepare(context);
  return campaigns_->Predict(&context, request, response);
}

grpc::Status DaemonClient::Model(const std::string& name, std::int64_t round, v1::ModelDescription* description,
                                 std::string* bytes) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetModelRequest request;
  request.set_campaign(name);
  request.set_round(round);
  const auto stream = campaigns_->GetModel(&context, request);
  for (v1::GetModelResponse part; stream->Read(&part);) {
    if (part.has_description()) *description = part.description();
    bytes->append(part.chunk());
  }
  return stream->Finish();
}

grpc::Status DaemonClient::Change(const v1::ChangeLabelsRequest& request, v1::ChangeLabelsResponse* response) {
  grpc::ClientContext context;
  Prepare(context);
  return labeling_->ChangeLabels(&context, request, response);
}

grpc::Status DaemonClient::Acquire(const v1::AcquireTasksRequest& request, v1::AcquireTasksResponse* response) {
  grpc::ClientContext context;
  Prepare(context);
  return labeling_->AcquireTasks(&context, request, response);
}

grpc::Status DaemonClient::Submit(const v1::SubmitLabelsRequest& request, v1::SubmitLabelsResponse* response) {
  grpc::ClientContext context;
  Prepare(context);
  return labeling_->SubmitLabels(&context, request, response);
}

v1::Task DaemonClient::AcquireOne(const std::string& campaign, const std::string& annotator) {
  v1::AcquireTasksResponse tasks;
  const grpc::Status status = Acquire(TasksWanted(campaign, annotator, 1), &tasks);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(tasks.tasks_size(), 1);
  return tasks.tasks_size() == 1 ? tasks.tasks(0) : v1::Task();
}

int DaemonClient::SubmitOne(const std::string& campaign, const std::string& annotator, const v1::Task& task,
                            const std::string& value) {
  v1::SubmitLabelsResponse results;
  const grpc::Status status = Submit(AnswerOf(campaign, annotator, task, value), &results);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return results.results_size() == 1 ? results.results(0).status().code() : -1;
}

v1::AcquireTasksRequest TasksWanted(const std::string& campaign, const std::string& annotator, int tasks) {
  v1::AcquireTasksRequest request;
  request.set_campaign(campaign);
  request.set_annotator(annotator);
  request.set_request_id(NewRequestId());
  request.set_max_tasks(tasks);
  request.mutable_wait()->set_seconds(10);
  return request;
}

v1::SubmitLabelsRequest AnswerOf(const std::string& campaign, const std::string& annotator, const v1::Task& task,
                                 const std::string& value) {
  v1::SubmitLabelsRequest request;
  request.set_campaign(campaign);
  request.set_annotator(annotator);
  request.set_request_id(NewRequestId());
  AddAnswer(task, value, request);
  return request;
}

void AddAnswer(const v1::Task& task, const std::string& value, v1::SubmitLabelsRequest& request) {
  v1::Label& label = *request.add_labels();
  label.mutable_lease()->set_lease_id(task.lease_id());
  label.mutable_lease()->set_epoch(task.epoch());
  label.set_item_id(task.item_id());
  label.set_value(value);
}

}  // namespace fulcrum::testing
