// A daemon in this process with a small campaign, and a worker that knows the answers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "pipeline/daemon.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::testing {

/// Examples of each round, from the labels that a campaign exports.
using Batches = std::map<std::int64_t, std::set<std::string>>;

/// Two clouds in four dimensions: even rows are "neg", odd ones "pos". The ids are the row numbers.
std::string CloudsText(std::size_t rows);
std::string AnswerTo(const std::string& item);

v1::CampaignSpec CloudSpec(const std::string& name, int rounds);

/// Calls a daemon; every call has a deadline.
class DaemonClient {
 public:
  DaemonClient(int port, std::string token);

  grpc::Status Create(const v1::CampaignSpec& spec);
  grpc::Status Start(const std::string& name);
  grpc::Status Pause(const std::string& name);
  grpc::Status Resume(const std::string& name);
  grpc::Status Stop(const std::string& name);
  grpc::Status Delete(const std::string& name);
  v1::Campaign Get(const std::string& name);
  std::vector<v1::ExportedLabel> Export(const std::string& name);
  Batches ExportedBatches(const std::string& name);

  grpc::Status Acquire(const v1::AcquireTasksRequest& request, v1::AcquireTasksResponse* response);
  grpc::Status Submit(const v1::SubmitLabelsRequest& request, v1::SubmitLabelsResponse* response);

  v1::LabelingService::Stub& labeling() { return *labeling_; }
  v1::CampaignService::Stub& campaigns() { return *campaigns_; }
  void Prepare(grpc::ClientContext& context) const;

 private:
  const std::string token_;
  std::unique_ptr<v1::LabelingService::Stub> labeling_;
  std::unique_ptr<v1::CampaignService::Stub> campaigns_;
};

/// Answers tasks rightly until the campaign is over or `most_labels` are given. Calls that fail because the daemon is
/// away are repeated unchanged. Returns how many labels were acknowledged, by sequence.
std::set<std::int64_t> WorkUntilOver(DaemonClient& client, const std::string& campaign, const std::string& annotator,
                                     std::size_t most_labels = SIZE_MAX);

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override;

  pipeline::DaemonOptions Options() const;
  void StartDaemon() { StartDaemon(Options()); }
  void StartDaemon(const pipeline::DaemonOptions& options);
  void StopDaemon();
  DaemonClient Client(const std::string& token = "") const { return DaemonClient(daemon_->port(), token); }

  TemporaryDirectory folder_;
  std::unique_ptr<pipeline::Daemon> daemon_;
};

}  // namespace fulcrum::testing
