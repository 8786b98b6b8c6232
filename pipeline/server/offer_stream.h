// CampaignService.OfferItems: rows of a stream, each message answered by one.
//
// One message at a time: the next is read when the answer is written, so a stream has no more in memory than that. Work
// is done on threads of an executor. The stream ends at once if its caller's token is revoked; it does not keep its
// campaign from being deleted. Lives until gRPC is done with it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/campaign_streams.h"
#include "pipeline/server/executor.h"

namespace fulcrum::pipeline {

/// Checks a request, or a message, and offers its rows.
absl::StatusOr<std::vector<v1::OfferAnswer>> OfferTo(const absl::StatusOr<std::shared_ptr<Campaign>>& campaign,
                                                     OfferRequest request);

class OfferStream final : public grpc::ServerBidiReactor<v1::OfferItemsRequest, v1::OfferItemsResponse>,
                          public std::enable_shared_from_this<OfferStream> {
 public:
  using FindCampaign = std::function<absl::StatusOr<std::shared_ptr<Campaign>>(const std::string& name)>;
  /// Is told how the call ended.
  using OnEnd = std::function<void(const std::string& campaign, const absl::Status& status)>;
  /// What a stream is made of; the executor and the caller's access control must outlive it.
  struct Parts {
    Executor& executor;
    StreamCaller caller;
    std::string by = {};  ///< who offers
    FindCampaign find = {};
    OnEnd on_end = {};
  };

  static OfferStream* Begin(Parts parts);
  /// A stream that says only why there is none.
  static OfferStream* Refuse(Parts parts, const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  explicit OfferStream(Parts parts) : parts_(std::move(parts)) {}
  void ReadMore();
  void Carry();
  absl::Status Take();
  /// Ends the stream when nothing works for it any more.
  void Stop(const absl::Status& why);
  void End(const absl::Status& status);

  const Parts parts_;
  std::shared_ptr<OfferStream> self_;  // until OnDone
  AccessControl::OpenStream open_;     // until OnDone
  v1::OfferItemsRequest incoming_;
  v1::OfferItemsResponse outgoing_;
  std::string campaign_;

  std::mutex mutex_;
  absl::Status stop_;  // why it must not go on
  bool busy_ = true;   // a message is being answered, or the stream has not begun to read
  bool ended_ = false;
};

}  // namespace fulcrum::pipeline
