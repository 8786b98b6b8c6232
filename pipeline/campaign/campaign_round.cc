#include "pipeline/campaign/campaign_round.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/round/memory_budget.h"
#include "stages/classify/model_file.h"
#include "stages/classify/svm_model.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/rules/annotator_rules.h"
#include "storage/rules/model_rules.h"
#include "storage/rules/round_rules.h"
#include "storage/rules/stuck_items.h"

namespace fulcrum::pipeline {
namespace {

// As many events as are read in a small part of a second.
constexpr std::int64_t kEventsAtOnce = 20'000;

double SecondsOf(const RoundResult& result, std::string_view stage) {
  for (const StageSeconds& entry : result.seconds) {
    if (entry.stage == stage) return entry.seconds;
  }
  return 0;
}

}  // namespace

v1::Stage StageOf(std::string_view name) {
  v1::Stage stage = v1::STAGE_UNSPECIFIED;
  const std::string value = absl::StrCat("STAGE_", absl::AsciiStrToUpper(std::string(name)));
  return v1::Stage_Parse(value, &stage) ? stage : v1::STAGE_UNSPECIFIED;
}

CampaignRound::CampaignRound(Parts parts, ModelHistory history)
    : plan_of_(std::move(parts.plan_of)),
      growing_pool_(parts.pool),
      store_(parts.store),
      reader_(parts.reader),
      events_(parts.events),
      published_task_(parts.published_task),
      history_(std::move(history)),
      job_(parts.launchers, parts.store.folder().cluster()) {}

absl::Status CampaignRound::CatchUp(std::int64_t sequence, const std::stop_token& stop) {
  for (std::int64_t read = reader_.state().last_sequence(); read < sequence;) {
    if (stop.stop_requested()) return absl::CancelledError("the round was stopped while it read the labels");
    // The first time most of the log is in a checkpoint, which must not be later than what is asked for.
    const std::int64_t through = read == 0 ? sequence : std::min(sequence, read + kEventsAtOnce);
    FULCRUM_RETURN_IF_ERROR(reader_.CatchUp(through));
    const std::int64_t before = std::exchange(read, reader_.state().last_sequence());
    if (read == before) break;  // the log ends here
  }
  return absl::OkStatus();
}

absl::Status CampaignRound::AcceptLastVotes(std::int64_t number, const std::stop_token& stop) {
  const auto status = store_.status();
  FULCRUM_RETURN_IF_ERROR(CatchUp(status->last_sequence, stop));
  FULCRUM_RETURN_IF_ERROR(FollowPlan());
  const auto over = StoppingReason(
      plan_.stop, {.labels = status->totals.labels, .cost = status->totals.cost, .rounds = number - 1, .models = {}});
  return over ? store_.Run(storage::AcceptVotes, {}).status() : absl::OkStatus();
}

absl::Status CampaignRound::FollowPlan() {
  const std::string& specification = reader_.state().settings().specification;
  if (specification_ == specification) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(plan_, plan_of_(specification));
  specification_ = specification;
  // What makes the next round cheap was made for the old plan.
  Forget();
  return absl::OkStatus();
}

absl::StatusOr<RoundLabels> CampaignRound::ReadLog(std::int64_t sequence, std::size_t predicted_rows,
                                                   const std::stop_token& stop) {
  FULCRUM_RETURN_IF_ERROR(CatchUp(sequence, stop));
  FULCRUM_RETURN_IF_ERROR(FollowPlan());
  FULCRUM_ASSIGN_OR_RETURN(auto pool, growing_pool_.Follow(reader_.state().appended(), store_.folder()));
  // Rows that came while a model process was at work take part from the next round on.
  const bool grown = pool_ != nullptr && predicted_rows == pool_->rows() && pool->rows() > predicted_rows;
  const std::shared_ptr<const CampaignPool> whole = pool;
  if (grown) pool = pool_;
  // Features of a model process are of as many rows as there were.
  if (pool != pool_ && !returned_.stored.empty()) Forget();
  if (pool != pool_ && runner_ != nullptr) runner_->MoveTo(pool->features());
  pool_ = pool;
  return ReadRoundLabels(reader_.state(), plan_, *pool_, *whole);
}

absl::StatusOr<bool> CampaignRound::TakePredictions(std::int64_t number, const std::optional<storage::ModelTask>& task,
                                                    const RoundLabels& labels) {
  if (labels.classes < 2) return true;
  const bool known = task && task->round == number;
  if (known && !task->closed.empty()) return true;
  if (known && task->answered() && static_cast<std::size_t>(task->rows) == pool_->rows()) {
    FULCRUM_ASSIGN_OR_RETURN(given_, storage::ReadPredictionFile(store_.folder(), task->file, task->checksum));
    if (given_.rows != pool_->rows() || given_.classes != plan_.classes.size()) {
      return absl::DataLossError(absl::StrCat("the predictions '", task->file, "' are of ", given_.rows, " rows and ",
                                              given_.classes, " classes, not of ", pool_->rows(), " and ",
                                              plan_.classes.size(), "; restore a backup"));
    }
    given_task_ = *task;
    return true;
  }
  FULCRUM_ASSIGN_OR_RETURN(
      const storage::ModelTask open,
      store_.Run(storage::OpenModelTask, {.round = number, .rows = static_cast<std::int64_t>(pool_->rows())}));
  // The labels of a task are those before its event, so that they stay the same if others arrive and the daemon
  // restarts.
  FULCRUM_ASSIGN_OR_RETURN(const auto decided, reader_.LabelsAt(open.id));
  std::vector<ClassIndex> of_rows(pool_->rows(), kUnlabeled);
  for (const storage::DecidedLabel& label : decided) {
    if (reader_.state().offered().figures().waiting > 0 && !pool_->ids().Find(label.item)) continue;
    FULCRUM_ASSIGN_OR_RETURN(const auto found, Locate(plan_, *pool_, label));
    of_rows[found.first] = found.second;
  }
  FULCRUM_ASSIGN_OR_RETURN(auto data, ModelTaskData::Make(open, pool_, plan_.classes, of_rows));
  published_task_.Publish(std::move(data));
  return false;
}

absl::Status CampaignRound::TakeFeatures() {
  storage::ModelFeatures wanted;
  if (!given_.probabilities.empty() && !given_task_.before.empty()) {
    const auto rows = static_cast<std::int64_t>(pool_->rows());
    wanted = given_task_.before.rows == rows ? given_task_.before : given_task_.features;
  }
  if (wanted == returned_.stored) return absl::OkStatus();
  Forget();
  if (wanted.empty()) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(Matrix<double> values,
                           storage::ReadFeatureFile(store_.folder(), wanted.file, wanted.checksum));
  if (static_cast<std::int64_t>(values.rows()) != wanted.rows) {
    return absl::DataLossError(absl::StrCat("the features '", wanted.file, "' are of ", values.rows(), " rows, not of ",
                                            wanted.rows, "; restore a backup"));
  }
  returned_.raw = ingest::PoolFeatures(std::move(values));
  if (!plan_.round.tune) {
    FULCRUM_RETURN_IF_ERROR(ingest::Normalizer::FitInPlace(plan_.normalize, returned_.raw).status());
    returned_.prepared = MakeFeatures(std::exchange(returned_.raw, {}));
  }
  returned_.stored = std::move(wanted);
  return absl::OkStatus();
}

bool CampaignRound::StartsFromNothing(std::int64_t number) const {
  if (plan_.full_every > 0 && number % plan_.full_every == 0) return true;
  // What was asked for before the log that the last round was based on, that round has done.
  const storage::Round* const last = reader_.state().rounds().last();
  return reader_.state().retrain_requested() > (last == nullptr ? 0 : last->based_on);
}

absl::Status CampaignRound::PrepareRunner(std::int64_t number) {
  // What was computed from other features says nothing about these.
  const bool other_features = returned_.stored.round != history_.FeaturesRoundBefore(number);
  const bool from_nothing = other_features || StartsFromNothing(number);
  const bool exists = runner_ != nullptr || tuned_ != nullptr;
  if (exists && !from_nothing) return absl::OkStatus();
  runner_.reset();
  tuned_.reset();
  // As if the process had never stopped; a cold start chooses landmarks again.
  std::map<ClassIndex, RowList> landmarks;
  if (!from_nothing) {
    FULCRUM_ASSIGN_OR_RETURN(landmarks, storage::ReadLandmarkFile(store_.folder(), number - 1, pool_->rows()));
  }
  if (plan_.round.tune) {
    tuned_ = std::make_unique<TunedRunner>(plan_.round);
    if (!other_features) tuned_->Recall(history_.TuningBefore(number));
    tuned_->RecallLandmarks(landmarks);
  } else {
    runner_ = std::make_unique<RoundRunner>(plan_.round, Features());
    runner_->RecallLandmarks(landmarks);
  }
  return absl::OkStatus();
}

const kernel::Features& CampaignRound::Features() const {
  if (tuned_ != nullptr) return *tuned_->features().pool;
  if (returned_.prepared != nullptr) return *returned_.prepared;
  return job_features_.pool != nullptr ? *job_features_.pool : pool_->features();
}

std::vector<double> CampaignRound::CostsOfRows() const {
  std::vector<double> costs;
  if (plan_.round.cost_budget <= 0 || !pool_->has_costs()) return costs;
  // Every answer that an example may need counts, so that the round keeps its budget whatever they are.
  const storage::CampaignSettings& settings = reader_.state().settings();
  const bool one_vote = settings.overlap == 1 && settings.margin == 1 && settings.confidence == 0;
  const double votes = one_vote ? 1 : static_cast<double>(settings.most_votes);
  for (std::size_t row = 0; row < pool_->rows(); ++row) {
    costs.push_back(votes * pool_->CostOf(static_cast<RowIndex>(row)));
  }
  return costs;
}

absl::StatusOr<RoundResult> CampaignRound::RunJob(std::int64_t number, std::int64_t sequence, const RoundLabels& labels,
                                                  const ProgressCallback& progress, const std::stop_token& stop) {
  job::RoundPlan plan;
  plan.set_campaign(plan_.name);
  plan.set_round(number);
  plan.set_sequence(sequence);
  plan.set_folder(std::filesystem::absolute(store_.folder().path()).string());
  for (const storage::AppendedRows& rows : reader_.state().appended()) plan.add_appended(rows.folder);
  plan.set_rows(pool_->rows());
  plan.set_specification(*specification_);
  plan.set_pool_memory_bytes(UsableMemoryBytes());
  plan.set_round_memory_bytes(plan_.round.memory_bytes > 0 ? plan_.round.memory_bytes : UsableMemoryBytes());
  for (std::size_t row = 0; row < labels.of_rows.size(); ++row) {
    if (labels.of_rows[row] == kUnlabeled) continue;
    plan.add_labeled_rows(static_cast<std::uint32_t>(row));
    plan.add_labels(labels.of_rows[row]);
    if (!labels.weights.empty()) plan.add_weights(labels.weights[row]);
  }
  plan.mutable_barred()->Add(labels.barred.begin(), labels.barred.end());
  if (plan_.round.tune) {
    if (const auto tuning = history_.TuningBefore(number)) plan.set_tuning(ToProto(*tuning).SerializeAsString());
  }
  const auto watch = [this](const std::string& description) {
    const std::scoped_lock lock(job_mutex_);
    job_description_ = description;
  };
  FULCRUM_ASSIGN_OR_RETURN(RoundResult result,
                           job_.Run(std::move(plan), *plan_.cluster, plan_.classes.size(), progress, watch, stop));
  if (result.tuning != nullptr) {
    const std::string& normalize = result.tuning->chosen.normalize;
    const bool known =
        job_features_.pool != nullptr && job_normalization_ == normalize && job_features_.pool->rows() == pool_->rows();
    if (!known) {
      FULCRUM_ASSIGN_OR_RETURN(job_features_, pool_->Prepare(normalize));
      job_normalization_ = normalize;
    }
  }
  return result;
}

absl::StatusOr<RoundResult> CampaignRound::Compute(std::int64_t number, std::int64_t sequence,
                                                   const RoundLabels& labels, bool select, const std::stop_token& stop,
                                                   const CommitCallback& commit) {
  const auto progress = [&](std::string_view stage, std::size_t done, std::size_t total) {
    v1::CampaignEvent event;
    event.mutable_stage()->set_round(number);
    event.mutable_stage()->set_stage(StageOf(stage));
    event.mutable_stage()->set_done(static_cast<std::int64_t>(done));
    event.mutable_stage()->set_total(static_cast<std::int64_t>(total));
    events_.Publish(std::move(event));
  };
  if (plan_.cluster) {
    FULCRUM_ASSIGN_OR_RETURN(RoundResult result, RunJob(number, sequence, labels, progress, stop));
    // The job fills the whole batch.
    std::vector<select::Pick>& picks = result.selection.picks;
    picks.resize(std::min(picks.size(), plan_.round.batch - labels.carried));
    FULCRUM_RETURN_IF_ERROR(commit(result));
    return result;
  }
  const bool trainable = labels.classes >= 2;
  std::optional<std::span<const float>> given;
  if (!given_.probabilities.empty()) given = given_.probabilities;
  const std::vector<double> costs = CostsOfRows();
  double cost_left = std::numeric_limits<double>::infinity();
  const double budget = reader_.state().settings().cost_budget;
  if (!costs.empty() && budget > 0) cost_left = budget - reader_.state().totals().cost;
  if (!costs.empty()) cost_left = std::min(cost_left, plan_.round.cost_budget) - labels.carried_cost;
  const RoundInput input{.class_count = plan_.classes.size(),
                         .labels = labels.of_rows,
                         .predictions = {},
                         .given_probabilities = given,
                         .queries_so_far = static_cast<std::size_t>(labels.count),
                         .weights = labels.weights,
                         .costs = costs,
                         .cost_left = cost_left,
                         .barred = labels.barred,
                         .places_taken = labels.carried,
                         .always_classify = trainable,
                         .probabilities = trainable,
                         .select = select};
  FULCRUM_RETURN_IF_ERROR(PrepareRunner(number));
  if (tuned_ != nullptr && !returned_.stored.empty()) {
    return tuned_->Run(MemoryFeatureSource(returned_.raw), input, progress, stop, commit);
  }
  if (tuned_ != nullptr) return tuned_->Run(*pool_, input, progress, stop, commit);
  return runner_->Run(input, progress, stop, commit);
}

absl::Status CampaignRound::RecallPredictions(std::int64_t number) {
  if (predicted_round_ == number - 1) return absl::OkStatus();
  last_predicted_.clear();
  predicted_round_ = number - 1;
  if (number == 1) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           storage::ReadRoundPredictions(store_.folder(), number - 1));
  for (const std::string& name : names) {
    const auto found = std::find(plan_.classes.begin(), plan_.classes.end(), name);
    // Before there was a classifier no row had a class.
    last_predicted_.push_back(found == plan_.classes.end() ? kUnlabeled
                                                           : static_cast<ClassIndex>(found - plan_.classes.begin()));
  }
  return absl::OkStatus();
}

double CampaignRound::NoteChanges(const RoundResult& result) {
  if (result.predicted.empty()) return 1;
  const std::size_t known = std::min(last_predicted_.size(), result.predicted.size());
  std::size_t same = 0;
  for (std::size_t row = 0; row < known; ++row) same += last_predicted_[row] == result.predicted[row] ? 1 : 0;
  return 1 - static_cast<double>(same) / static_cast<double>(result.predicted.size());
}

absl::Status CampaignRound::StoreModel(std::int64_t sequence, const RoundResult& result,
                                       const v1::ModelTrained& trained) {
  storage::RecordModelRequest record{
      .round = trained.round(), .trained_on = sequence, .file = given_task_.file, .checksum = given_task_.checksum};
  if (result.model) {
    FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, classify::SerializeSvm(*result.model, Features()));
    FULCRUM_ASSIGN_OR_RETURN(record, storage::WriteModelFile(store_.folder(), trained.round(), sequence, bytes));
  }
  record.record = StoredText(trained);
  EventBroadcaster::Announcement announcement = events_.Announce();
  FULCRUM_ASSIGN_OR_RETURN(const std::int64_t stored, store_.Run(storage::RecordModel, std::move(record)));
  history_.Add(trained);
  v1::CampaignEvent event;
  *event.mutable_model() = trained;
  events_.PublishChange(std::move(event), stored, std::move(announcement));
  return absl::OkStatus();
}

absl::StatusOr<v1::ModelTrained> CampaignRound::Describe(std::int64_t number, const RoundLabels& labels,
                                                         const RoundResult& result, double seconds) {
  v1::ModelTrained model;
  model.set_round(number);
  model.set_labels(labels.count);
  model.set_changed_share(NoteChanges(result));
  if (result.model) {
    model.set_support_vectors(static_cast<std::int64_t>(result.svm->support_vectors));
    model.set_warm(result.svm->warm);
    model.set_train_seconds(SecondsOf(result, "train"));
    const std::string normalize = result.tuning == nullptr ? "" : result.tuning->chosen.normalize;
    FULCRUM_ASSIGN_OR_RETURN(const auto accuracy, pool_->Accuracy(*result.model, Features(), normalize));
    if (accuracy) model.set_accuracy(*accuracy);
  } else {
    model.set_model_process(given_task_.process);
    model.set_features_round(returned_.stored.round);
  }
  if (result.tuning != nullptr) *model.mutable_tuning() = ToProto(*result.tuning);
  *model.mutable_effort() = history_.EffortOf(number, result, seconds);
  for (const StageSeconds& entry : result.seconds) {
    if (StageOf(entry.stage) == v1::STAGE_UNSPECIFIED) continue;
    v1::StageTime& time = *model.mutable_effort()->add_stages();
    time.set_stage(StageOf(entry.stage));
    time.set_seconds(entry.seconds);
  }
  return model;
}

absl::Status CampaignRound::Conclude(std::int64_t number, Purpose purpose, std::int64_t sequence,
                                     const RoundLabels& labels, const RoundResult& result, double seconds,
                                     Outcome& outcome) {
  if (result.model || !given_.probabilities.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(const v1::ModelTrained trained, Describe(number, labels, result, seconds));
    if (trained.has_accuracy()) outcome.accuracy = trained.accuracy();
    FULCRUM_RETURN_IF_ERROR(StoreModel(sequence, result, trained));
    // What a model process predicted is not brought up to date after the end.
    if (result.model) outcome.trained_on = sequence;
  }
  if (purpose == Purpose::kTrainOnly) {
    outcome.over = "its labels were changed after the end";
    return absl::OkStatus();
  }
  const storage::Totals totals = store_.status()->totals;
  const std::vector<ModelScore> scores = history_.ScoresThrough(number);
  outcome.over = StoppingReason(plan_.stop,
                                {.labels = totals.labels, .cost = totals.cost, .rounds = number - 1, .models = scores});
  if (outcome.over) return absl::OkStatus();
  return CommitBatch(number, sequence, labels, result, seconds);
}

absl::StatusOr<CampaignRound::Outcome> CampaignRound::Run(std::int64_t number, Purpose purpose, std::stop_token stop) {
  const auto begun = std::chrono::steady_clock::now();
  out_of_memory_ = false;
  // The labels of the round are those under what is known of the annotators by now.
  FULCRUM_RETURN_IF_ERROR(store_.Run(storage::EstimateAnnotators, {}).status());
  if (purpose == Purpose::kSelect) FULCRUM_RETURN_IF_ERROR(AcceptLastVotes(number, stop));
  const auto status = store_.status();
  const std::int64_t sequence = status->last_sequence;
  const auto& task = status->model_task;
  const bool predicted = task && task->round == number && task->answered();
  FULCRUM_ASSIGN_OR_RETURN(const RoundLabels labels,
                           ReadLog(sequence, predicted ? static_cast<std::size_t>(task->rows) : 0, stop));
  given_ = {};
  given_task_ = {};
  if (purpose == Purpose::kSelect && plan_.external) {
    FULCRUM_ASSIGN_OR_RETURN(const bool ready, TakePredictions(number, task, labels));
    if (!ready) return Outcome{.waits_for_model = true};
    FULCRUM_RETURN_IF_ERROR(TakeFeatures());
  }
  FULCRUM_RETURN_IF_ERROR(RecallPredictions(number));
  v1::CampaignEvent started;
  started.mutable_round_started()->set_round(number);
  started.mutable_round_started()->set_labels(labels.count);
  events_.Publish(std::move(started));

  Outcome outcome{.decided_under = *specification_};
  absl::Status concluded;
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  const CommitCallback commit = [&](const RoundResult& selected) {
    concluded = Conclude(number, purpose, sequence, labels, selected, seconds(), outcome);
    return concluded;
  };
  const bool select = labels.carried < plan_.round.batch;
  absl::StatusOr<RoundResult> result = Compute(number, sequence, labels, select, stop, commit);
  // Nothing new can be batched, but items that have votes can be.
  if (absl::IsOutOfRange(result.status()) && select && labels.carried > 0 && !plan_.cluster) {
    result = Compute(number, sequence, labels, /*select=*/false, stop, commit);
  }
  // The end of a round writes to the disk, which may be full; what comes before needs memory.
  out_of_memory_ = absl::IsResourceExhausted(result.status()) && concluded.ok();
  if (result.status().code() == absl::StatusCode::kOutOfRange) {
    outcome.over = std::string(result.status().message());
    return outcome;
  }
  FULCRUM_RETURN_IF_ERROR(result.status());
  if (outcome.over) return outcome;
  last_predicted_ = std::move(result->predicted);
  predicted_round_ = number;
  outcome.times = Times{.round = number,
                        .seconds = seconds(),
                        .warm = result->svm && result->svm->warm,
                        .stages = std::move(result->seconds)};
  return outcome;
}

}  // namespace fulcrum::pipeline
