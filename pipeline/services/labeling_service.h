// fulcrum.v1.LabelingService: what workers ask.
//
// Thin: it says who calls and for which campaign, and hands over. No handler waits. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "pipeline/campaign/campaign_book.h"
#include "pipeline/services/gatekeeper.h"
#include "pipeline/services/message_arena.h"
#include "pipeline/services/reply_sender.h"
#include "pipeline/services/task_acquirer.h"

namespace fulcrum::pipeline {

/// A worker's call, admitted.
struct LabelingCall {
  std::shared_ptr<Campaign> campaign = {};
  std::string annotator = {};
};

class LabelingService final : public v1::LabelingService::CallbackService {
 public:
  /// All of them must outlive it.
  LabelingService(CampaignBook& campaigns, const Gatekeeper& gatekeeper, TaskWaiters& waiters, ReplySender& replies);

  grpc::ServerUnaryReactor* AcquireTasks(grpc::CallbackServerContext* context, const v1::AcquireTasksRequest* request,
                                         v1::AcquireTasksResponse* response) override;
  grpc::ServerUnaryReactor* RenewLeases(grpc::CallbackServerContext* context, const v1::RenewLeasesRequest* request,
                                        v1::RenewLeasesResponse* response) override;
  grpc::ServerUnaryReactor* SubmitLabels(grpc::CallbackServerContext* context, const v1::SubmitLabelsRequest* request,
                                         v1::SubmitLabelsResponse* response) override;
  grpc::ServerUnaryReactor* ChangeLabels(grpc::CallbackServerContext* context, const v1::ChangeLabelsRequest* request,
                                         v1::ChangeLabelsResponse* response) override;
  grpc::ServerUnaryReactor* SkipTasks(grpc::CallbackServerContext* context, const v1::SkipTasksRequest* request,
                                      v1::SkipTasksResponse* response) override;
  grpc::ServerUnaryReactor* ReleaseTasks(grpc::CallbackServerContext* context, const v1::ReleaseTasksRequest* request,
                                         v1::ReleaseTasksResponse* response) override;
  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(grpc::CallbackServerContext* context) override;

  /// Unauthenticated, PermissionDenied or NotFound where the call is not to be carried out.
  absl::StatusOr<LabelingCall> Admit(const grpc::ServerContextBase& context, const std::string& campaign,
                                     const std::string& annotator) const;

  /// The same for a stream that has not said yet what it is for.
  absl::Status AdmitStream(const grpc::ServerContextBase& context) const;
  /// Sends what the store's writing thread has found out.
  ReplySender& replies() const { return replies_; }
  /// Where the messages of streams are made.
  ArenaPool& arenas() const { return arenas_; }
  /// Counts a message of a stream as a call.
  absl::Status CountMessage(const LabelingCall& call) const { return gatekeeper_.CountMessage(call.annotator); }

 private:
  CampaignBook& campaigns_;
  const Gatekeeper& gatekeeper_;
  ReplySender& replies_;
  TaskAcquirer acquirer_;
  mutable ArenaPool arenas_;
  ArenaAllocator<v1::AcquireTasksRequest, v1::AcquireTasksResponse> acquire_messages_{arenas_};
  ArenaAllocator<v1::SubmitLabelsRequest, v1::SubmitLabelsResponse> submit_messages_{arenas_};
};

}  // namespace fulcrum::pipeline
