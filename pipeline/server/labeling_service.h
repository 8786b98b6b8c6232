// fulcrum.v1.LabelingService and ModelService: what labeling workers and model processes ask.
//
// Thin: they say who calls and for which campaign, and hand over. No handler waits. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "fulcrum/v1/labeling_service.grpc.pb.h"
#include "fulcrum/v1/labeling_service.pb.h"
#include "fulcrum/v1/model_service.grpc.pb.h"
#include "fulcrum/v1/model_service.pb.h"
#include "pipeline/campaign/campaign.h"
#include "pipeline/campaign/campaign_registry.h"
#include "pipeline/server/access_control.h"
#include "pipeline/server/executor.h"
#include "pipeline/server/transport/message_arena.h"
#include "storage/rules/lease_rules.h"
#include "storage/rules/model_rules.h"

namespace fulcrum::pipeline {

// Workers who asked for tasks when there were none, and wait.
//
// A waiter is woken when its campaign has changed so that there may be something for it, in the order they came and no
// more of them than there are tasks; and at the latest when its time is up. Waking runs on a thread of its own, never
// on the store's. Thread-safe.

/// Why a waiter was woken.
enum class Wake { kTask, kTimeUp, kStopping };

class TaskWaiters {
 public:
  using Clock = std::chrono::steady_clock;
  /// How many waiters a campaign may have use for now.
  using OpenTasks = std::function<std::size_t(const std::string& campaign)>;

  explicit TaskWaiters(OpenTasks open_tasks);
  /// Stops, where that was not done.
  ~TaskWaiters();
  TaskWaiters(const TaskWaiters&) = delete;
  TaskWaiters& operator=(const TaskWaiters&) = delete;

  /// `woken` is called once, on another thread or at once. One that was woken in vain waits again with `again`, and is
  /// not woken for what it has just looked at.
  void Wait(const std::string& campaign, Clock::time_point until, bool again, std::function<void(Wake)> woken);
  /// Something changed in a campaign; cheap, and never blocks.
  void Notify(const std::string& campaign);
  /// Those who wait now, of all campaigns.
  std::size_t waiting() const;
  /// Wakes all, and from then on all that begin to wait.
  void Stop();

 private:
  struct Waiter {
    Clock::time_point until = {};
    std::function<void(Wake)> woken = {};
  };
  struct Call {
    std::function<void(Wake)> woken = {};
    Wake why = Wake::kTask;
  };

  void Loop(const std::stop_token& stop);
  void NotifyAll();
  void TakeTimedOut(std::vector<Call>& calls);
  void TakeNotified(std::vector<Call>& calls);
  Clock::time_point NextTime() const;

  const OpenTasks open_tasks_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::unordered_map<std::string, std::list<Waiter>> waiters_;
  std::vector<std::string> notified_;
  bool wake_ = false;
  bool stopped_ = false;
  std::jthread thread_;
};

// Takes tasks for a worker, and waits for some if there are none.
//
// Never blocks: the answer comes through a callback, on the thread that sends replies or one of the waiters'.
// Thread-safe.

struct AcquireCall {
  std::shared_ptr<Campaign> campaign = {};
  std::string annotator = {};
  std::string request_id = {};
  std::int64_t most = 1;
  TaskWaiters::Clock::time_point until = {};
  /// A person may sit in front of an empty screen.
  storage::Turn turn = storage::Turn::kUrgent;
  /// Whether the worker has gone meanwhile: it then gets nothing.
  std::function<bool()> gone = {};
};

/// What came of it; no tasks if there were none for as long as the worker waited.
struct TakenTasks {
  std::vector<storage::GrantedLease> leases = {};
  bool campaign_over = false;

  /// Whether a worker gains by being told.
  bool worth_telling() const { return campaign_over || !leases.empty(); }
};

/// Describes the tasks that a worker has taken, from the first of those that were not described yet. Returns how many:
/// fewer than all if more would not fit into a message.
std::size_t DescribeTasks(const Campaign& campaign, const TakenTasks& taken, std::size_t first,
                          v1::AcquireTasksResponse& response);

/// For tasks that were leased and cannot be handed over. Does not wait.
void ReleaseTaken(const std::shared_ptr<Campaign>& campaign, const std::string& annotator, const TakenTasks& taken);

class TaskAcquirer {
 public:
  using Done = std::function<void(const absl::StatusOr<TakenTasks>&)>;

  /// Both must outlive it.
  TaskAcquirer(TaskWaiters& waiters, ReplySender& replies) : waiters_(waiters), replies_(replies) {}

  void Acquire(AcquireCall call, Done done) { Try(std::make_shared<Attempt>(std::move(call), std::move(done)), false); }

 private:
  struct Attempt {
    AcquireCall call = {};
    Done done = {};
  };
  void Try(const std::shared_ptr<Attempt>& attempt, bool again);
  void Receive(const std::shared_ptr<Attempt>& attempt, bool again, absl::StatusOr<storage::AcquireAnswer> answer);
  void WaitOrGiveUp(const std::shared_ptr<Attempt>& attempt, bool again);
  void Resume(const std::shared_ptr<Attempt>& attempt, Wake why);

  TaskWaiters& waiters_;
  ReplySender& replies_;
};

/// A worker's call, admitted.
struct LabelingCall {
  std::shared_ptr<Campaign> campaign = {};
  std::string annotator = {};
  Caller caller = {};
};

class LabelingService final : public v1::LabelingService::CallbackService {
 public:
  /// All of them must outlive it.
  LabelingService(CampaignRegistry& campaigns, const AccessControl& access, TaskWaiters& waiters, ReplySender& replies,
                  Executor& executor);

  grpc::ServerUnaryReactor* ListLabelingCampaigns(grpc::CallbackServerContext* context,
                                                  const v1::ListLabelingCampaignsRequest* request,
                                                  v1::ListLabelingCampaignsResponse* response) override;
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
  grpc::ServerWriteReactor<v1::GetPayloadResponse>* GetPayload(grpc::CallbackServerContext* context,
                                                               const v1::GetPayloadRequest* request) override;
  grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* Work(grpc::CallbackServerContext* context) override;

  /// Unauthenticated, PermissionDenied or NotFound if the call must not be carried out.
  absl::StatusOr<LabelingCall> Admit(const grpc::ServerContextBase& context, const std::string& campaign,
                                     const std::string& annotator) const;

  /// The same for a stream that has not said yet what it is for. `end` is called if its token is revoked.
  absl::StatusOr<AccessControl::OpenStream> AdmitStream(const grpc::ServerContextBase& context,
                                                        std::function<void(const absl::Status&)> end) const;
  /// Sends what the store's writing thread has found out.
  ReplySender& replies() const { return replies_; }
  /// Where the messages of streams are made.
  ArenaPool& arenas() const { return arenas_; }
  /// Whether a message of a stream may be carried out; it counts as a call.
  absl::Status AdmitMessage(const LabelingCall& call) const { return access_.AdmitMessage(call.caller); }

 private:
  CampaignRegistry& campaigns_;
  const AccessControl& access_;
  ReplySender& replies_;
  Executor& executor_;
  TaskAcquirer acquirer_;
  mutable ArenaPool arenas_;
  ArenaAllocator<v1::AcquireTasksRequest, v1::AcquireTasksResponse> acquire_messages_{arenas_};
  ArenaAllocator<v1::SubmitLabelsRequest, v1::SubmitLabelsResponse> submit_messages_{arenas_};
};

/// Reading rows and storing predictions run on threads of the executor.
class ModelService final : public v1::ModelService::CallbackService {
 public:
  /// All of them must outlive it. `waiters` are those of model tasks; reading and storing run in `lane`.
  ModelService(CampaignRegistry& campaigns, const AccessControl& access, TaskWaiters& waiters, ReplySender& replies,
               Executor& lane)
      : campaigns_(campaigns), access_(access), waiters_(waiters), replies_(replies), lane_(lane) {}

  grpc::ServerUnaryReactor* AcquireModelTask(grpc::CallbackServerContext* context,
                                             const v1::AcquireModelTaskRequest* request,
                                             v1::AcquireModelTaskResponse* response) override;
  grpc::ServerUnaryReactor* RenewModelTask(grpc::CallbackServerContext* context,
                                           const v1::RenewModelTaskRequest* request,
                                           v1::RenewModelTaskResponse* response) override;
  grpc::ServerUnaryReactor* ReleaseModelTask(grpc::CallbackServerContext* context,
                                             const v1::ReleaseModelTaskRequest* request,
                                             v1::ReleaseModelTaskResponse* response) override;
  grpc::ServerWriteReactor<v1::GetModelLabelsResponse>* GetModelLabels(
      grpc::CallbackServerContext* context, const v1::GetModelLabelsRequest* request) override;
  grpc::ServerWriteReactor<v1::GetModelRowsResponse>* GetModelRows(grpc::CallbackServerContext* context,
                                                                   const v1::GetModelRowsRequest* request) override;
  grpc::ServerReadReactor<v1::SubmitPredictionsRequest>* SubmitPredictions(
      grpc::CallbackServerContext* context, v1::SubmitPredictionsResponse* response) override;

 private:
  /// A process's call, admitted.
  struct Admitted {
    std::shared_ptr<Campaign> campaign = {};
    Caller caller = {};
    std::string process = {};
  };
  /// A call for the task, while it waits.
  struct Acquiring;

  /// FailedPrecondition for a campaign that uses the built-in classifier.
  absl::StatusOr<std::shared_ptr<Campaign>> FindCampaign(const std::string& name) const;
  absl::StatusOr<Admitted> Admit(const grpc::ServerContextBase& context, const std::string& campaign,
                                 const std::string& process) const;
  /// The same for a call that only reads what a task names.
  absl::StatusOr<std::shared_ptr<const ModelTaskData>> AdmitReader(const grpc::ServerContextBase& context,
                                                                   const std::string& campaign, std::int64_t task,
                                                                   Caller& caller) const;
  void Try(const std::shared_ptr<Acquiring>& call, bool again);
  void Receive(const std::shared_ptr<Acquiring>& call, bool again, std::shared_ptr<const ModelTaskData> data,
               const absl::StatusOr<storage::AcquireModelAnswer>& answer);
  void WaitOrGiveUp(const std::shared_ptr<Acquiring>& call, bool again);

  CampaignRegistry& campaigns_;
  const AccessControl& access_;
  TaskWaiters& waiters_;
  ReplySender& replies_;
  Executor& lane_;
};

// The requests of workers about tasks they hold, carried out against the store, with a status per item.
//
// Never blocks: `done` is called on the thread that sends replies when all parts of a request are on disk and the
// response, which must live until then, is complete. The request is needed during the call only. Stateless and
// thread-safe.

/// Who asks, and who sends the answer, which must outlive the request.
struct LabelRequester {
  Campaign& campaign;
  const std::string& annotator;
  ReplySender& replies;
};

/// OK if a request has an id and not too many parts.
absl::Status CheckRequest(const std::string& request_id, int parts);

void SubmitLabels(const LabelRequester& requester, const v1::SubmitLabelsRequest& request,
                  v1::SubmitLabelsResponse& response, std::function<void()> done);
void ChangeLabels(const LabelRequester& requester, const v1::ChangeLabelsRequest& request,
                  v1::ChangeLabelsResponse& response, std::function<void()> done);
void SkipTasks(const LabelRequester& requester, const v1::SkipTasksRequest& request, v1::SkipTasksResponse& response,
               std::function<void()> done);
void ReleaseTasks(const LabelRequester& requester, const v1::ReleaseTasksRequest& request,
                  v1::ReleaseTasksResponse& response, std::function<void()> done);
void RenewLeases(const LabelRequester& requester, const v1::RenewLeasesRequest& request,
                 v1::RenewLeasesResponse& response, std::function<void()> done);

/// Releases all leases of an annotator, for one who may no longer work. Does not wait.
void ReleaseAllLeases(Campaign& campaign, const std::string& annotator);

}  // namespace fulcrum::pipeline
