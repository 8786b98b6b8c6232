// CampaignService.AppendItems: gathers what a client sends, then lets the campaign take it in.
//
// Thin, and never with more than one chunk in memory. Works on threads of the executor, because disks and checks take
// their time. Deletes itself when gRPC is done with it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/services/executor.h"

namespace fulcrum::pipeline {

class AppendStream final : public grpc::ServerReadReactor<v1::AppendItemsRequest> {
 public:
  /// Finds the campaign that a request names.
  using FindCampaign = std::function<absl::StatusOr<std::shared_ptr<Campaign>>(const std::string& name)>;

  /// The executor and the response must outlive the stream. `by` is who appends.
  static AppendStream* Begin(Executor& executor, FindCampaign find, std::string by, v1::AppendItemsResponse* response);
  /// A stream that says only why nothing can be appended.
  static AppendStream* Refuse(Executor& executor, const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnCancel() override { cancelled_ = true; }
  void OnDone() override { delete this; }

 private:
  AppendStream(Executor& executor, FindCampaign find, std::string by, v1::AppendItemsResponse* response)
      : executor_(executor), find_(std::move(find)), by_(std::move(by)), response_(response) {}

  void End(const absl::Status& status);
  absl::Status TakePart();
  absl::Status BeginUpload(const v1::AppendItemsRequest::Begin& begin);
  absl::Status TakeIn();

  Executor& executor_;
  const FindCampaign find_;
  const std::string by_;
  v1::AppendItemsResponse* const response_;
  v1::AppendItemsRequest incoming_;  // where gRPC reads into
  std::string request_id_;
  std::shared_ptr<Campaign> campaign_;
  std::unique_ptr<RowUpload> upload_;
  bool complete_ = false;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace fulcrum::pipeline
