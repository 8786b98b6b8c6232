// Runs a daemon in this process, without tokens, and calls it for a benchmark.
//
// Exits on any error. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "fulcrum/v1/operation_service.grpc.pb.h"
#include "pipeline/operation/daemon.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::benchmarks {

class BenchmarkDaemon {
 public:
  BenchmarkDaemon();

  int port() const { return daemon_->port(); }
  /// Writes a file into the folder of pools.
  void WritePool(const std::string& name, const std::string& text) const { folder_.Write("pools/" + name, text); }
  /// Makes a file from another folder available in the folder of pools.
  void LinkPool(const std::string& name, const std::string& path) const;

  void Create(const v1::CampaignSpec& spec) const;
  /// Returns labels for rows, at most a thousand.
  void Import(const std::string& campaign, const std::map<std::size_t, std::string>& labels) const;
  void Start(const std::string& campaign) const;
  void Stop(const std::string& campaign) const;
  void Delete(const std::string& campaign) const;
  v1::Campaign Get(const std::string& campaign) const;
  /// Returns the sum of a metric over all labels except the campaign, from /metrics of the daemon.
  double Metric(const std::string& name, const std::string& campaign) const;
  /// Returns when tasks are available.
  void WaitForTasks(const std::string& campaign) const;

  v1::CampaignService::Stub& campaigns() const { return *campaigns_; }
  v1::LabelingService::Stub& labeling() const { return *labeling_; }

 private:
  testing::TemporaryDirectory folder_;
  std::unique_ptr<pipeline::Daemon> daemon_;
  std::unique_ptr<v1::CampaignService::Stub> campaigns_;
  std::unique_ptr<v1::OperationService::Stub> operations_;
  std::unique_ptr<v1::LabelingService::Stub> labeling_;
};

void Require(const absl::Status& status);

}  // namespace fulcrum::benchmarks
