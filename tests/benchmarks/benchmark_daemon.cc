#include "tests/benchmarks/benchmark_daemon.h"

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/http_get.h"

namespace fulcrum::benchmarks {
namespace {

void Require(const grpc::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "a call failed: %s\n", status.error_message().c_str());
  std::exit(1);
}

}  // namespace

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

BenchmarkDaemon::BenchmarkDaemon() {
  std::filesystem::create_directories(folder_.File("pools"));
  pipeline::DaemonOptions options;
  options.data_folder = folder_.File("data");
  options.pool_root = folder_.File("pools");
  options.ask_for_tokens = false;
  options.watch.address = "127.0.0.1:0";
  auto daemon = pipeline::Daemon::Start(options);
  Require(daemon.status());
  daemon_ = *std::move(daemon);
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", daemon_->port()), grpc::InsecureChannelCredentials());
  campaigns_ = v1::CampaignService::NewStub(channel);
  operations_ = v1::OperationService::NewStub(channel);
  labeling_ = v1::LabelingService::NewStub(channel);
}

void BenchmarkDaemon::LinkPool(const std::string& name, const std::string& path) const {
  // The daemon does not follow symbolic links that leave the folder.
  std::filesystem::copy_file(path, folder_.File("pools/" + name));
}

void BenchmarkDaemon::Create(const v1::CampaignSpec& spec) const {
  grpc::ClientContext context;
  v1::CreateCampaignRequest request;
  *request.mutable_spec() = spec;
  v1::CreateCampaignResponse created;
  Require(campaigns_->CreateCampaign(&context, request, &created));
  v1::GetOperationRequest operation;
  operation.set_operation(created.operation().name());
  v1::GetOperationResponse response;
  while (!response.operation().has_ended_at()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    grpc::ClientContext get_context;
    Require(operations_->GetOperation(&get_context, operation, &response));
  }
  const v1::OperationError& error = response.operation().error();
  Require(grpc::Status(static_cast<grpc::StatusCode>(error.code()), error.message()));
}

void BenchmarkDaemon::Import(const std::string& campaign, const std::map<std::size_t, std::string>& labels) const {
  grpc::ClientContext context;
  v1::ImportLabelsRequest request;
  request.set_campaign(campaign);
  request.set_source("benchmark");
  request.set_request_id("import");
  for (const auto& [row, label] : labels) {
    auto& entry = *request.add_labels();
    entry.set_item_id(absl::StrCat(row));
    entry.set_value(label);
  }
  v1::ImportLabelsResponse response;
  Require(campaigns_->ImportLabels(&context, request, &response));
}

void BenchmarkDaemon::Start(const std::string& campaign) const {
  grpc::ClientContext context;
  v1::StartCampaignRequest request;
  request.set_campaign(campaign);
  v1::StartCampaignResponse response;
  Require(campaigns_->StartCampaign(&context, request, &response));
}

void BenchmarkDaemon::Stop(const std::string& campaign) const {
  grpc::ClientContext context;
  v1::StopCampaignRequest request;
  request.set_campaign(campaign);
  v1::StopCampaignResponse response;
  Require(campaigns_->StopCampaign(&context, request, &response));
}

void BenchmarkDaemon::Delete(const std::string& campaign) const {
  grpc::ClientContext context;
  v1::DeleteCampaignRequest request;
  request.set_campaign(campaign);
  v1::DeleteCampaignResponse response;
  Require(campaigns_->DeleteCampaign(&context, request, &response));
  // Deleted campaigns would fill the disk in a run of many campaigns.
  std::filesystem::remove_all(response.trash_folder());
}

v1::Campaign BenchmarkDaemon::Get(const std::string& campaign) const {
  grpc::ClientContext context;
  v1::GetCampaignRequest request;
  request.set_campaign(campaign);
  v1::GetCampaignResponse response;
  Require(campaigns_->GetCampaign(&context, request, &response));
  return response.campaign();
}

double BenchmarkDaemon::Metric(const std::string& name, const std::string& campaign) const {
  double sum = 0;
  for (const absl::string_view line : absl::StrSplit(testing::HttpGet(daemon_->watch_port(), "/metrics"), '\n')) {
    double value = 0;
    const bool wanted = absl::StartsWith(line, absl::StrCat(name, "{")) &&
                        absl::StrContains(line, absl::StrCat("campaign=\"", campaign, "\""));
    if (wanted && absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) sum += value;
  }
  return sum;
}

void BenchmarkDaemon::WaitForTasks(const std::string& campaign) const {
  grpc::ClientContext context;
  v1::WatchCampaignRequest request;
  request.set_campaign(campaign);
  const auto stream = campaigns_->WatchCampaign(&context, request);
  v1::WatchCampaignResponse response;
  while (stream->Read(&response) && response.event().campaign().open_tasks() == 0 && !response.event().has_batch()) {
  }
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  stream->Finish();
}

}  // namespace fulcrum::benchmarks
