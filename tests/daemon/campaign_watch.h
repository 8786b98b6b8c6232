// The events of a campaign as a client receives them. Not thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "tests/daemon/daemon_client.h"

namespace fulcrum::testing {

/// Receives the events of a campaign while the daemon runs.
class CampaignWatch {
 public:
  CampaignWatch(int port, const std::string& campaign) : client_(port, "") {
    client_.Prepare(context_);
    v1::CampaignRequest request;
    request.set_name(campaign);
    stream_ = client_.campaigns().WatchCampaign(&context_, request);
  }
  bool Next(v1::CampaignEvent* event) { return stream_->Read(event); }
  void Leave() { context_.TryCancel(); }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  DaemonClient client_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::CampaignEvent>> stream_;
};

}  // namespace fulcrum::testing
