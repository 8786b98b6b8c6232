#include "tests/daemon/daemon_fixture.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "stages/core/random.h"

namespace fulcrum::testing {
namespace {

constexpr std::chrono::seconds kDeadline{60};

std::string NewRequestId() {
  static std::atomic<std::int64_t> next{0};
  return absl::StrCat("test-", getpid(), "-", ++next);
}

bool MayPass(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

}  // namespace

std::string CloudsText(std::size_t rows) {
  Random random(7);
  std::string text = "f0,f1,f2,f3\n";
  for (std::size_t row = 0; row < rows; ++row) {
    const double centre = row % 2 == 0 ? -0.7 : 0.7;
    for (int i = 0; i < 4; ++i) absl::StrAppend(&text, i == 0 ? "" : ",", centre + random.Normal());
    text += "\n";
  }
  return text;
}

std::string AnswerTo(const std::string& item) {
  std::int64_t row = 0;
  return absl::SimpleAtoi(item, &row) && row % 2 == 0 ? "neg" : "pos";
}

v1::CampaignSpec CloudSpec(const std::string& name, int rounds) {
  v1::CampaignSpec spec;
  spec.set_name(name);
  spec.mutable_pool()->add_sources("clouds.csv");
  spec.add_classes("neg");
  spec.add_classes("pos");
  spec.mutable_selection()->set_strategy("dbalevs");
  spec.mutable_selection()->set_batch(6);
  spec.mutable_stop()->set_rounds(rounds);
  spec.set_seed(3);
  return spec;
}

DaemonClient::DaemonClient(int port, std::string token) : token_(std::move(token)) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  const auto channel =
      grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
  labeling_ = v1::LabelingService::NewStub(channel);
  campaigns_ = v1::CampaignService::NewStub(channel);
}

void DaemonClient::Prepare(grpc::ClientContext& context) const {
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  // A daemon that is being started again is waited for, instead of asked again and again.
  context.set_wait_for_ready(true);
  if (!token_.empty()) context.AddMetadata("authorization", "Bearer " + token_);
}

grpc::Status DaemonClient::Create(const v1::CampaignSpec& spec) {
  grpc::ClientContext context;
  Prepare(context);
  v1::CreateCampaignRequest request;
  *request.mutable_spec() = spec;
  v1::Campaign campaign;
  return campaigns_->CreateCampaign(&context, request, &campaign);
}

#define FULCRUM_TEST_STEER(Method, Rpc)                        \
  grpc::Status DaemonClient::Method(const std::string& name) { \
    grpc::ClientContext context;                               \
    Prepare(context);                                          \
    v1::CampaignRequest request;                               \
    request.set_name(name);                                    \
    v1::Campaign campaign;                                     \
    return campaigns_->Rpc(&context, request, &campaign);      \
  }
FULCRUM_TEST_STEER(Start, StartCampaign)
FULCRUM_TEST_STEER(Pause, PauseCampaign)
FULCRUM_TEST_STEER(Resume, ResumeCampaign)
FULCRUM_TEST_STEER(Stop, StopCampaign)
#undef FULCRUM_TEST_STEER

grpc::Status DaemonClient::Delete(const std::string& name) {
  grpc::ClientContext context;
  Prepare(context);
  v1::CampaignRequest request;
  request.set_name(name);
  v1::DeleteCampaignResponse response;
  return campaigns_->DeleteCampaign(&context, request, &response);
}

v1::Campaign DaemonClient::Get(const std::string& name) {
  grpc::ClientContext context;
  Prepare(context);
  v1::GetCampaignRequest request;
  request.set_name(name);
  v1::Campaign campaign;
  const grpc::Status status = campaigns_->GetCampaign(&context, request, &campaign);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return campaign;
}

std::vector<v1::ExportedLabel> DaemonClient::Export(const std::string& name) {
  grpc::ClientContext context;
  Prepare(context);
  v1::CampaignRequest request;
  request.set_name(name);
  const auto stream = campaigns_->ExportLabels(&context, request);
  std::vector<v1::ExportedLabel> labels;
  for (v1::ExportedLabel label; stream->Read(&label);) labels.push_back(label);
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return labels;
}

Batches DaemonClient::ExportedBatches(const std::string& name) {
  Batches batches;
  for (const v1::ExportedLabel& label : Export(name)) batches[label.round()].insert(label.item_id());
  return batches;
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

std::set<std::int64_t> WorkUntilOver(DaemonClient& client, const std::string& campaign, const std::string& annotator,
                                     std::size_t most_labels) {
  std::set<std::int64_t> acknowledged;
  while (acknowledged.size() < most_labels) {
    v1::AcquireTasksRequest acquire;
    acquire.set_campaign(campaign);
    acquire.set_annotator(annotator);
    acquire.set_request_id(NewRequestId());
    acquire.set_max_tasks(2);
    acquire.mutable_wait()->set_seconds(5);
    v1::AcquireTasksResponse tasks;
    grpc::Status status;
    while (MayPass(status = client.Acquire(acquire, &tasks))) {
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (!status.ok() || tasks.campaign_over()) break;
    if (tasks.tasks_size() == 0) continue;
    v1::SubmitLabelsRequest submit;
    submit.set_campaign(campaign);
    submit.set_annotator(annotator);
    submit.set_request_id(NewRequestId());
    for (const v1::Task& task : tasks.tasks()) {
      v1::Label& label = *submit.add_labels();
      label.mutable_lease()->set_lease_id(task.lease_id());
      label.mutable_lease()->set_epoch(task.epoch());
      label.set_item_id(task.item_id());
      label.set_value(AnswerTo(task.item_id()));
    }
    v1::SubmitLabelsResponse results;
    while (MayPass(status = client.Submit(submit, &results))) {
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    for (const auto& result : results.results()) {
      EXPECT_EQ(result.status().code(), 0) << result.status().message();
      if (result.status().code() == 0) acknowledged.insert(result.sequence());
    }
  }
  return acknowledged;
}

void DaemonTest::SetUp() {
  std::filesystem::create_directories(folder_.File("pools"));
  folder_.Write("pools/clouds.csv", CloudsText(200));
}

pipeline::DaemonOptions DaemonTest::Options() const {
  pipeline::DaemonOptions options;
  options.data_folder = folder_.File("data");
  options.pool_root = folder_.File("pools");
  options.ask_for_tokens = false;
  return options;
}

void DaemonTest::StartDaemon(const pipeline::DaemonOptions& options) {
  auto daemon = pipeline::Daemon::Start(options);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);
}

void DaemonTest::StopDaemon() {
  const absl::Status status = daemon_->Stop();
  EXPECT_TRUE(status.ok()) << status;
  daemon_.reset();
}

}  // namespace fulcrum::testing
