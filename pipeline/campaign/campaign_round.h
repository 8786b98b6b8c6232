// One round of a campaign: from the label log to a model, the decision whether to continue, and a committed batch.
//
// Keeps what makes the next round cheap. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_plan.h"
#include "pipeline/campaign/cluster/cluster_round_job.h"
#include "pipeline/campaign/event_broadcaster.h"
#include "pipeline/campaign/model/campaign_models.h"
#include "pipeline/campaign/model/model_tasks.h"
#include "pipeline/campaign/pool/campaign_pool.h"
#include "pipeline/campaign/round_labels.h"
#include "pipeline/round/round.h"
#include "pipeline/round/tuning.h"
#include "storage/campaign_files.h"
#include "storage/campaign_reader.h"
#include "storage/campaign_store.h"
#include "storage/state/campaign_records.h"
#include "storage/state/tables.h"

namespace fulcrum::pipeline {

/// "train" is STAGE_TRAIN.
v1::Stage StageOf(std::string_view name);

class CampaignRound {
 public:
  /// What a round works with; all of it must outlive the rounds.
  struct Parts {
    std::function<absl::StatusOr<CampaignPlan>(const std::string& specification)> plan_of;
    GrowingPool& pool;
    storage::CampaignStore& store;
    storage::CampaignReader& reader;
    EventBroadcaster& events;
    PublishedModelTask& published_task;
    const ClusterLaunchers& launchers;
  };
  /// `history` is what the log says of the models so far.
  CampaignRound(Parts parts, ModelHistory history);

  /// Drops what makes the next round cheap, and the memory it takes. Not while a round runs.
  void Forget() {
    runner_.reset();
    tuned_.reset();
    job_features_ = {};
    returned_ = {};
  }

  /// How long a round took that ended with a batch.
  struct Times {
    std::int64_t round = 0;
    double seconds = 0;  ///< from reading the log to the committed batch
    bool warm = false;   ///< it used results of the round before
    std::vector<StageSeconds> stages = {};
  };
  struct Outcome {
    std::optional<std::string> over = {};  ///< why the campaign ends; otherwise a batch was committed
    std::string decided_under = {};        ///< the specification by which it is over
    std::optional<double> accuracy = {};
    std::int64_t trained_on = 0;      ///< sequence that the stored model is a function of; 0 without one
    std::optional<Times> times = {};  ///< if a batch was committed
    bool waits_for_model = false;     ///< nothing was done: the predictions of a model process must arrive first
  };
  enum class Purpose {
    kSelect,     ///< train, decide whether to go on, and select the next batch
    kTrainOnly,  ///< bring the model up to date, of a campaign that is over
  };
  /// Runs round `number` on the log as it is now. Everything it decides is a function of the log up to a sequence
  /// that is stored with the batch, so a round that was interrupted is simply run again.
  absl::StatusOr<Outcome> Run(std::int64_t number, Purpose purpose, std::stop_token stop);
  /// Whether the last round failed because what it computes takes more memory than it may use.
  bool out_of_memory() const { return out_of_memory_; }
  /// What computes the running round, if that is a job; otherwise empty. Thread-safe.
  std::string DescribeJob() const {
    const std::scoped_lock lock(job_mutex_);
    return job_description_;
  }

 private:
  /// If the stopping rules say already that the campaign is over, its last votes decide before the last training.
  absl::Status AcceptLastVotes(std::int64_t number, const std::stop_token& stop);
  /// Follows the log in parts, so that a campaign with many new labels can be stopped meanwhile.
  absl::Status CatchUp(std::int64_t sequence, const std::stop_token& stop);
  /// Takes the specification as it is at this point of the log.
  absl::Status FollowPlan();
  /// Takes the labels and the pool as they are at this point of the log.
  absl::StatusOr<RoundLabels> ReadLog(std::int64_t sequence, std::size_t predicted_rows, const std::stop_token& stop);
  /// Whether the round can run: it needs no predictions of a model process, or they are stored, and are read into
  /// given_ then. Otherwise the task for them is open and published.
  absl::StatusOr<bool> TakePredictions(std::int64_t number, const std::optional<storage::ModelTask>& task,
                                       const RoundLabels& labels);
  /// Makes the features of a model process those of the round, if there are some for it: what came with the
  /// predictions of an earlier round, or, if the pool has grown since, with its own.
  absl::Status TakeFeatures();
  /// Predictions of the round before, if this process did not make them itself.
  absl::Status RecallPredictions(std::int64_t number);
  /// Whether this round must start cold, by the plan or on request.
  bool StartsFromNothing(std::int64_t number) const;
  /// Makes runner_, or tuned_, the one for this round. There is only ever one: each may hold kernel matrices as large
  /// as the pool squared.
  absl::Status PrepareRunner(std::int64_t number);
  /// The costs of the rows; empty unless the plan limits what a round may cost.
  std::vector<double> CostsOfRows() const;
  /// The round as a job; see cluster_round_job.h.
  absl::StatusOr<RoundResult> RunJob(std::int64_t number, std::int64_t sequence, const RoundLabels& labels,
                                     const ProgressCallback& progress, const std::stop_token& stop);
  /// The decision values of the model of this round for these rows, in their order; empty without a model.
  Matrix<double> DecisionsOf(const RoundResult& result, std::span<const RowIndex> rows) const;
  /// What the classifier says of rows that have votes or are to get them; empty if it says nothing.
  absl::StatusOr<storage::Voices> Hear(const RoundLabels& labels, const RoundResult& result) const;
  /// The features that the model of the last round was trained on.
  const kernel::Features& Features() const;
  /// Computes the round, here or as a job; it ends with `commit`. Without `select` it picks nothing.
  absl::StatusOr<RoundResult> Compute(std::int64_t number, std::int64_t sequence, const RoundLabels& labels,
                                      bool select, const std::stop_token& stop, const CommitCallback& commit);
  /// The end of the round: its model, the decision whether to continue, and the batch.
  absl::Status Conclude(std::int64_t number, Purpose purpose, std::int64_t sequence, const RoundLabels& labels,
                        const RoundResult& result, double seconds, Outcome& outcome);
  /// Makes the model durable with its record, and publishes it.
  absl::Status StoreModel(std::int64_t sequence, const RoundResult& result, const v1::ModelTrained& trained);
  /// Examples to be asked about again, and as many picks less.
  std::vector<storage::BatchedItem> TakeAgain(const storage::Voices& voices, const RoundLabels& labels,
                                              select::Selection& selection) const;
  absl::Status CommitBatch(std::int64_t number, std::int64_t sequence, const RoundLabels& labels, RoundResult result,
                           double seconds);
  /// What rows of a stream are compared with until the next round; returns the name of its file.
  absl::StatusOr<std::string> StoreStreamModel(std::int64_t number, const RoundLabels& labels,
                                               const RoundResult& result);
  /// The share of predictions that changed since the last round.
  double NoteChanges(const RoundResult& result);
  absl::StatusOr<v1::ModelTrained> Describe(std::int64_t number, const RoundLabels& labels, const RoundResult& result,
                                            double seconds);

  const std::function<absl::StatusOr<CampaignPlan>(const std::string& specification)> plan_of_;
  GrowingPool& growing_pool_;
  storage::CampaignStore& store_;
  storage::CampaignReader& reader_;
  EventBroadcaster& events_;
  PublishedModelTask& published_task_;
  ModelHistory history_;
  std::optional<std::string> specification_;  // that plan_ is made of, as it is in the log
  CampaignPlan plan_;                         // of the round that runs
  std::shared_ptr<const CampaignPool> pool_;  // of the round that runs; the runner refers to it
  std::unique_ptr<RoundRunner> runner_;
  std::unique_ptr<TunedRunner> tuned_;  // instead, if the classifier is tuned
  ClusterRoundJob job_;                 // instead, if rounds are jobs
  PreparedFeatures job_features_;       // that the model of the last job was trained on, if the classifier is tuned
  std::string job_normalization_;       // of those
  storage::StoredPredictions given_;    // of a model process, for the round that runs; empty: none
  storage::ModelTask given_task_;       // what they were returned for
  /// Features that a model process returned, instead of the pool's.
  struct ReturnedFeatures {
    storage::ModelFeatures stored = {};               // empty: they are the pool's
    ingest::PoolFeatures raw = {};                    // if the classifier is tuned
    std::unique_ptr<kernel::Features> prepared = {};  // otherwise
  };
  ReturnedFeatures returned_;
  bool out_of_memory_ = false;
  std::int64_t predicted_round_ = 0;  // the round of last_predicted_; 0: none
  std::vector<ClassIndex> last_predicted_;
  mutable std::mutex job_mutex_;
  std::string job_description_;  // guarded by job_mutex_
};

}  // namespace fulcrum::pipeline
