// The bidirectional streams: LabelingService.Work, on which tasks are labeled, and CampaignService.OfferItems, on which
// rows are offered.
//
// Work is one stream on which a worker gets tasks and answers them.
//
// Tasks are sent as long as fewer than the worker's credit are out; requests are answered in order. A worker that has
// sent all (half-close) gets the answers that are due before the stream ends. A slow reader stops its own stream and
// nothing else: while answers pile up, nothing more is read from it. Lives until gRPC is done with it; callbacks of the
// store hold it meanwhile.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.grpc.pb.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/executor.h"
#include "pipeline/server/labeling_service.h"
#include "pipeline/server/streams/campaign_streams.h"
#include "pipeline/server/transport/message_arena.h"

namespace fulcrum::pipeline {

class WorkStream final : public grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>,
                         public std::enable_shared_from_this<WorkStream> {
 public:
  static WorkStream* Begin(const LabelingService& service, TaskAcquirer& acquirer,
                           grpc::CallbackServerContext& context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  WorkStream(const LabelingService& service, TaskAcquirer& acquirer, grpc::CallbackServerContext& context)
      : service_(service), acquirer_(acquirer), context_(context) {}

  /// A message on an arena of its own.
  struct Outgoing {
    std::shared_ptr<MessageArena> arena = {};
    v1::WorkResponse* message = nullptr;
  };

  void Greet(const v1::WorkRequest& request);
  void Serve(const v1::WorkRequest& request);
  /// Carries a request out; `answer_of` says where in a WorkResponse its answer goes.
  template <typename Request, typename Act, typename Answer>
  void Carry(const Request& request, int parts, const std::vector<std::int64_t>& ended_leases, Act act,
             Answer answer_of);
  /// Carries a renewal out: leases that are renewed stay out until their new time.
  void CarryRenewal(const v1::RenewLeasesRequest& request);
  void NoteRenewals(const std::vector<std::int64_t>& leases, const v1::RenewLeasesResponse& response);
  void End(const absl::Status& status);
  /// Ends the stream if the worker has sent all and has got all answers.
  void EndIfDrained();
  Outgoing NewResponse() const;
  void Send(Outgoing response);
  /// Sends the answer to a request.
  void SendAnswer(const Outgoing& response);
  void ReadMore();
  /// Asks for tasks where there is credit and no question is out.
  void FillCredit();
  void TakeTasks(const absl::StatusOr<TakenTasks>& taken);
  void SendTasks(const TakenTasks& taken);
  /// For tasks that were leased after the worker had gone.
  void ReleaseUndelivered(const TakenTasks& taken);
  /// Tells the worker what the campaign waits for, if that is news.
  void SendWaiting();
  /// Tasks that are answered or given up are no longer out.
  void Return(const std::vector<std::int64_t>& leases);
  /// Those whose time is up are no longer out either.
  void ForgetExpired();

  const LabelingService& service_;
  TaskAcquirer& acquirer_;
  grpc::CallbackServerContext& context_;
  std::shared_ptr<WorkStream> self_;  // until OnDone
  MessageArena arena_;                // of what is being read
  v1::WorkRequest* incoming_ = arena_.New<v1::WorkRequest>();
  AccessControl::OpenStream open_;  // until OnDone
  LabelingCall call_;
  std::int64_t watch_ = 0;  // of the campaign's events; 0: none
  std::string id_;          // begins the ids of this stream's own requests

  std::mutex mutex_;
  std::deque<Outgoing> outgoing_;             // the first is being written
  std::map<std::int64_t, std::int64_t> out_;  // lease -> when it ends, in seconds
  std::size_t credit_ = 0;
  std::int64_t questions_ = 0;
  std::size_t pending_ = 0;  // requests without an answer
  std::string told_;         // what it waits for
  bool asking_ = false;
  bool reading_ = false;
  bool half_closed_ = false;
  bool left_ = false;  // it did so on its own: no stream continues the session
  bool resumable_ = false;
  bool ended_ = false;
};

// CampaignService.OfferItems: rows of a stream, each message answered by one.
//
// One message at a time: the next is read when the answer is written, so a stream has no more in memory than that. Work
// is done on threads of an executor. The stream ends at once if its caller's token is revoked; it does not keep its
// campaign from being deleted. Lives until gRPC is done with it.

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
