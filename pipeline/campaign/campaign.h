// A campaign of the daemon: its store, its pool, and the thread that runs its rounds.
//
// The thread waits until a round is answered, trains, selects and commits the next batch; it never waits for a person.
// What it does next follows from the store alone, so a campaign that is reopened continues where it was. The exception
// is a campaign whose round was running when the process died twice in a row: it is quarantined, see crash_marker.h.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/annotator_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/campaign_round.h"
#include "pipeline/campaign/cluster/cluster_round_job.h"
#include "pipeline/campaign/crash_marker.h"
#include "pipeline/campaign/event_broadcaster.h"
#include "pipeline/campaign/memory_allowance.h"
#include "pipeline/campaign/model/campaign_models.h"
#include "pipeline/campaign/model/model_tasks.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/pool/pool_growth.h"
#include "pipeline/campaign/pool/upload_store.h"
#include "pipeline/campaign/stream/campaign_stream.h"
#include "pipeline/round/pool_source.h"
#include "storage/campaign_reader.h"
#include "storage/campaign_store.h"
#include "storage/rules/round_rules.h"

namespace google::protobuf {
class FieldMask;
}  // namespace google::protobuf

namespace fulcrum::pipeline {

/// What a campaign needs of the daemon around it.
struct CampaignServices {
  PoolPlaces pools = {};            ///< where pools are imported from
  ClusterLaunchers launchers = {};  ///< what may compute rounds
  /// Must outlive the campaign; may be null.
  MemoryBudgetShare* memory = nullptr;
  /// Of the store. Must outlive the campaign; null for a storage::AnchoredClock.
  const storage::Clock* clock = nullptr;
  /// Tasks may have become free; called on the store's writing thread.
  std::function<void()> on_change = {};
  /// The store is over: the process should end.
  std::function<void(const absl::Status&)> on_fatal = {};
  /// A round ended with a batch; called on the campaign's thread.
  std::function<void(const CampaignRound::Times&)> on_round = {};
  /// A commit took so long; called on the store's writing thread.
  std::function<void(std::chrono::nanoseconds)> on_commit_time = {};
  /// Before the first retry of a step that failed for now; doubled with every retry.
  std::chrono::milliseconds retry_time{1'000};
  /// Of the queue of the store.
  storage::CommitQueueOptions queue = {};
};

/// Who asks for a change, and under which id. An id takes effect once; empty: every request is a new one.
struct ChangeOrder {
  std::string by = {};
  std::string request_id = {};
  std::string reason = {};  ///< may be empty
};

/// The label errors that were found last (campaign_annotators.cc).
struct FoundLabelErrors {
  std::mutex mutex;                               ///< of all that follows; held while they are looked for
  std::shared_ptr<const CampaignPlan> plan = {};  ///< with which they were found; null: never
  std::string state = {};                         ///< of the campaign, in which they were found
  v1::ListLabelErrorsResponse errors = {};        ///< all of them
  std::int64_t computed = 0;                      ///< how many times
};

class Campaign {
 public:
  /// Makes a campaign in a new folder, its pool included. AlreadyExists if there is one, Cancelled if `control` ends
  /// the import.
  static absl::StatusOr<std::shared_ptr<Campaign>> Create(const std::string& folder, const v1::CampaignSpec& spec,
                                                          CampaignServices services, const ImportControl& control);
  /// Goes on with a campaign that is there.
  static absl::StatusOr<std::shared_ptr<Campaign>> Open(const std::string& folder, CampaignServices services) {
    return OpenFolder(folder, std::move(services), /*exists=*/true);
  }
  /// Stops the thread, also during a round, and closes the store. Waits for a stage that does not react.
  ~Campaign();
  Campaign(const Campaign&) = delete;
  Campaign& operator=(const Campaign&) = delete;

  /// Cancels the running round, starts no other, and ends the streams of watchers; labels are accepted as before. The
  /// destructor waits for the round.
  void RequestStop();
  /// Cancels the running round, if there is one. It is run again if the campaign is still running.
  void CancelRound();
  /// Before it is deleted: cancels the round, ends the streams of watchers and workers, and offers nothing.
  void BeginClosing();
  /// It is not deleted after all.
  void CancelClosing();
  bool closing() const { return closing_; }
  /// Waits for the end of the running round. False if it has not ended by then.
  bool WaitForRound(std::chrono::steady_clock::time_point until);

  const std::string& name() const { return name_; }
  /// As of the last update.
  std::shared_ptr<const CampaignPlan> plan() const;
  storage::CampaignStore& store() { return *store_; }
  const std::string& folder() const { return store_->folder().path(); }
  std::shared_ptr<const CampaignPool> pool() const { return pool_->now(); }
  EventBroadcaster& events() { return events_; }
  v1::Campaign Describe() const;
  /// With what it waits for, which takes a turn of the store. Not for the store's writing thread.
  v1::Campaign DescribeFully();

  /// Gathers rows, and adds them to the pool; see PoolAppender.
  absl::StatusOr<std::unique_ptr<RowUpload>> BeginUpload() { return appender_->BeginUpload(); }
  absl::StatusOr<Appended> AppendItems(const AppendRequest& request);
  /// Decides about rows of a stream; see CampaignStream::Offer. Waits for the disk. FailedPrecondition if the
  /// specification has no stream or the campaign is not running.
  absl::StatusOr<std::vector<v1::OfferAnswer>> OfferItems(const OfferRequest& request);
  /// What a model says of examples; see campaign_models.h.
  absl::StatusOr<v1::PredictResponse> Predict(const v1::PredictRequest& request);
  ModelCache& models() { return *models_; }
  FoundLabelErrors& label_errors() { return label_errors_; }
  /// What model processes ask for.
  PublishedModelTask& published_task() { return published_task_; }
  /// A model process can take the task of the round now.
  bool offers_model_task() const;

  absl::Status Start(const ChangeOrder& order);
  absl::Status Pause(const ChangeOrder& order);
  absl::Status Resume(const ChangeOrder& order);
  absl::Status Stop(const ChangeOrder& order);
  /// Lets the next round train from scratch. FailedPrecondition if there will be none.
  absl::Status Retrain(const ChangeOrder& order);
  /// Changes the fields of the specification that the mask names; see UpdatedSpec. A campaign that a stopping rule
  /// ended goes on if a rule was changed, and ends again if one is still met.
  absl::Status Update(const v1::CampaignSpec& spec, const google::protobuf::FieldMask& mask, const ChangeOrder& order);

  /// NotFound for an example that the pool does not have.
  absl::Status CheckItem(const std::string& item) const;
  /// What a person needs to see of an example.
  std::string PayloadOf(const std::string& item) const;
  /// At most `most` bytes of it, from `first` on.
  std::string PayloadPart(const std::string& item, std::size_t first, std::size_t most) const;
  /// Size of it.
  std::size_t PayloadBytes(const std::string& item) const;
  /// What it waits for, or why it does not go on; empty if it is over. Does not block: `done` is called on the store's
  /// writing thread, or before this returns. With an annotator: as it concerns this one, whose budget may be spent.
  void DescribeWaiting(std::function<void(std::vector<v1::WaitingFor>)> done, const std::string& annotator = "");
  /// Tasks are offered now.
  bool offers_tasks() const;
  /// No more tasks will be offered.
  bool over() const;
  /// Its rounds killed the process twice in a row; Start runs them again.
  bool quarantined() const { return quarantined_; }
  /// That its log lost events, and how many; empty if it did not, or if an administrator has deleted the note of it.
  std::string lost_events() const;
  /// Steps that failed for now and were retried, since it was opened.
  std::int64_t retries() const { return retries_; }

 private:
  Campaign(CampaignPlan plan, CampaignServices services);
  /// `exists`: it was there before, and is opened also if there is no memory for its rounds any more.
  static absl::StatusOr<std::shared_ptr<Campaign>> OpenFolder(const std::string& folder, CampaignServices services,
                                                              bool exists);
  /// The memory of its rounds is stored with the campaign: on another day there may be other campaigns next to it.
  static v1::CampaignSpec WithRoundMemory(v1::CampaignSpec spec, const MemoryBudgetShare* memory);
  absl::Status LoadPool(const storage::CampaignFolder& folder, bool exists);
  /// Appends a file of the watched folder, unless another caller is appending.
  absl::StatusOr<Appended> TakeFile(const AppendRequest& request);
  storage::StoreOptions StoreOptionsHere();
  absl::Status Begin(std::unique_ptr<storage::CampaignStore> store);
  absl::Status OpenStream();
  /// Puts rows that the stream has brought into files of the pool, before a round.
  absl::Status StoreOfferedRows();
  /// Of the pool, those included that are not in its files yet.
  std::int64_t PoolRows() const;
  void DescribeStream(const storage::OfferedFigures& figures, v1::Campaign& campaign) const;
  /// Takes up what the log says of the models so far.
  absl::StatusOr<ModelHistory> RecallModels();
  absl::StatusOr<CampaignPlan> PlanOf(const std::string& specification) const;
  /// From one of the given states; `what` is what the campaign cannot be otherwise, such as "paused".
  absl::Status ChangeLife(const storage::LifeRequest& request, const char* what);
  void LogLife(const storage::LifeRequest& request) const;
  void LogFindings() const;
  /// Does nothing if the campaign is no longer running, because it was stopped or paused meanwhile, or if its
  /// specification is no longer the one that this was decided under (empty: any). False then.
  absl::StatusOr<bool> EndRunning(storage::Life life, const std::string& reason, const std::string& decided_under = {});
  /// Disputes items that no annotator can decide.
  absl::Status SettleStuck(const storage::CampaignStatus& status);
  /// Trains once more if labels changed after the end.
  absl::StatusOr<bool> TrainAfterTheEnd(const storage::CampaignStatus& status, const std::stop_token& stop);
  /// Whether the pool can be used as it has grown; see PoolAppender::Admit.
  absl::Status Admit(const CampaignPool& grown, std::size_t first_new);
  storage::Life life() const;
  absl::Status LeaveQuarantine(const std::string& by);
  /// Takes in files of the watched folder from now on, if there is one. Under mutex_.
  void StartWatch();

  void OnCommit(const storage::CampaignStatus& status);
  void Wake();
  /// The same, also if a step that failed would be retried later.
  void RetryNow();
  void Loop(const std::stop_token& stop);
  /// Does what can be done now; true if there may be more to do at once.
  absl::StatusOr<bool> Step(const std::stop_token& stop);
  /// The same; what it throws is an error of the step.
  absl::StatusOr<bool> GuardedStep(const std::stop_token& stop);
  /// Whether the next round waits for the predictions of a model process. If it has waited long enough, the round does
  /// without them, or the campaign has failed.
  absl::StatusOr<bool> WaitsForModel(const storage::CampaignStatus& status);
  /// Closes the round if the budget allows no more answers. True if it is closed.
  absl::StatusOr<bool> CloseSpentRound(std::int64_t round);
  /// Another campaign waits for what this one keeps between its rounds.
  void OnRoomWanted();
  /// Keeps nothing for the next round any more, where another campaign has asked for the room.
  void MakeRoom();
  /// After a step that failed: the round was cancelled, or is retried later, or the campaign has failed. Returns how
  /// long to wait before the next step.
  std::chrono::milliseconds EndStep(const absl::Status& why, const std::stop_token& stop);
  /// Notes that the step is retried, and returns after which time.
  std::chrono::milliseconds NoteRetry(const std::string& reason);
  absl::StatusOr<bool> RunRound(std::int64_t number, CampaignRound::Purpose purpose, const std::stop_token& stop);
  /// Waits for memory, and runs the round.
  absl::StatusOr<CampaignRound::Outcome> RunWithMemory(std::int64_t number, CampaignRound::Purpose purpose,
                                                       const std::stop_token& stop);
  /// Runs the round between the writing and the removal of its marker.
  absl::StatusOr<CampaignRound::Outcome> RunMarked(std::int64_t number, CampaignRound::Purpose purpose,
                                                   const std::stop_source& cancel);
  void PublishState();
  /// The same after a change of the log with this sequence.
  void PublishLife(std::int64_t sequence, EventBroadcaster::Announcement announcement);

  const std::string name_;
  const CampaignServices services_;
  std::mutex updating_;  // one update at a time
  EventBroadcaster events_;
  PublishedModelTask published_task_;
  FoundLabelErrors label_errors_;
  MemoryBudgetShare::Place place_;
  std::unique_ptr<GrowingPool> pool_;
  std::unique_ptr<storage::CampaignReader> reader_;
  std::unique_ptr<storage::CampaignStore> store_;
  std::unique_ptr<PoolAppender> appender_;
  std::unique_ptr<CampaignStream> stream_;  // none unless the specification has one
  std::unique_ptr<ModelCache> models_;
  std::unique_ptr<CampaignRound> round_;

  mutable std::mutex mutex_;
  std::shared_ptr<const CampaignPlan> plan_;
  std::condition_variable_any woken_;
  bool wake_ = false;
  bool room_wanted_ = false;
  bool retry_now_ = false;
  std::condition_variable round_ended_;
  bool selecting_ = false;
  bool queued_ = false;  // for memory, before it selects
  std::atomic<bool> quarantined_ = false;
  std::atomic<bool> closing_ = false;
  std::string retry_reason_;  // why the last step failed, while it is retried
  int retry_attempts_ = 0;
  std::atomic<std::int64_t> retries_ = 0;
  std::chrono::system_clock::time_point retry_at_ = {};
  std::stop_source round_stop_;  // of the round that is running or queued
  std::optional<double> accuracy_;
  std::optional<RoundMarker> marker_;  // used by the thread, and by Start while the thread runs no round
  int failed_steps_ = 0;               // in a row; used by the thread only
  int memory_failures_ = 0;            // rounds in a row that had too little memory; used by the thread only
  std::int64_t settled_at_ = 0;        // sequence at which stuck items were looked for; used by the thread only
  std::int64_t trained_at_ = 0;        // the last model is of the log up to here; 0: none; used by the thread only
  std::int64_t published_labels_ = 0;  // used on the writing thread only
  std::jthread thread_;
  std::unique_ptr<FolderWatch> watch_;  // none without a folder to watch, and during a quarantine
};

}  // namespace fulcrum::pipeline
