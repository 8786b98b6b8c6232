#include "pipeline/campaign/campaign_round.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/stored_text.h"
#include "stages/classify/model_file.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/state/round_rules.h"

namespace fulcrum::pipeline {

absl::StatusOr<ModelHistory> ModelHistory::Read(const std::vector<storage::StoredModel>& models) {
  ModelHistory history;
  for (const storage::StoredModel& stored : models) {
    v1::ModelTrained model;
    if (!stored.record.empty()) FULCRUM_RETURN_IF_ERROR(ParseStoredText(stored.record, model));
    model.set_round(stored.round);
    history.Add(model);
  }
  return history;
}

std::vector<ModelScore> ModelHistory::ScoresThrough(std::int64_t round) const {
  std::vector<ModelScore> scores;
  for (const auto& [number, model] : models_) {
    if (number > round) break;
    ModelScore score{.changed_share = model.changed_share()};
    if (model.has_accuracy()) score.accuracy = model.accuracy();
    scores.push_back(score);
  }
  return scores;
}

namespace {

// Settings that a classifier chose, to and from the record of a model.

v1::ClassifierTuning::Choice ToProto(const ClassifierChoice& choice) {
  v1::ClassifierTuning::Choice proto;
  proto.set_normalize(choice.normalize);
  const bool linear = choice.kernel.type == kernel::KernelType::kLinear;
  proto.mutable_kernel()->set_type(linear ? v1::KernelSpec::TYPE_LINEAR : v1::KernelSpec::TYPE_RBF);
  if (!linear) proto.mutable_kernel()->set_sigma(choice.kernel.sigma);
  proto.set_c(choice.c);
  proto.set_log_loss(choice.log_loss);
  proto.set_accuracy(choice.accuracy);
  return proto;
}

ClassifierChoice FromProto(const v1::ClassifierTuning::Choice& proto) {
  ClassifierChoice choice;
  choice.normalize = proto.normalize();
  choice.kernel.type =
      proto.kernel().type() == v1::KernelSpec::TYPE_LINEAR ? kernel::KernelType::kLinear : kernel::KernelType::kRbf;
  if (proto.kernel().has_sigma()) choice.kernel.sigma = proto.kernel().sigma();
  choice.c = proto.c();
  choice.log_loss = proto.log_loss();
  choice.accuracy = proto.accuracy();
  return choice;
}

v1::ClassifierTuning ToProto(const TunedSettings& settings) {
  v1::ClassifierTuning proto;
  *proto.mutable_chosen() = ToProto(settings.chosen);
  for (const ClassifierChoice& choice : settings.runners_up) *proto.add_runners_up() = ToProto(choice);
  proto.set_labels(static_cast<std::int64_t>(settings.labels));
  proto.set_classes(static_cast<std::int32_t>(settings.classes));
  proto.set_leverage_sigma(settings.leverage_kernel.sigma);
  proto.set_reason(settings.reason);
  return proto;
}

}  // namespace

std::shared_ptr<const TunedSettings> ModelHistory::TuningBefore(std::int64_t round) const {
  const auto after = models_.lower_bound(round);
  if (after == models_.begin()) return nullptr;
  const v1::ModelTrained& model = std::prev(after)->second;
  if (!model.has_tuning()) return nullptr;
  auto settings = std::make_shared<TunedSettings>();
  settings->chosen = FromProto(model.tuning().chosen());
  for (const auto& choice : model.tuning().runners_up()) settings->runners_up.push_back(FromProto(choice));
  settings->labels = static_cast<std::size_t>(model.tuning().labels());
  settings->classes = static_cast<std::size_t>(model.tuning().classes());
  settings->leverage_kernel.sigma = model.tuning().leverage_sigma();
  settings->reason = model.tuning().reason();
  return settings;
}

v1::RoundEffort ModelHistory::EffortOf(std::int64_t round, const RoundResult& result, double seconds) const {
  v1::RoundEffort effort;
  for (const auto& [number, model] : models_) {
    if (number >= round) break;
    if (model.warm()) continue;
    effort.set_cold_solver_iterations(model.effort().solver_iterations());
    effort.set_cold_eigen_products(model.effort().eigen_products());
    effort.set_cold_seconds(model.effort().seconds());
  }
  if (result.svm) {
    const auto all = static_cast<std::int64_t>(result.svm->support_vectors);
    const auto computed = static_cast<std::int64_t>(result.svm->decision_columns_computed);
    effort.set_solver_iterations(static_cast<std::int64_t>(result.svm->iterations));
    effort.set_kernel_columns_computed(computed);
    effort.set_kernel_columns_kept(std::max<std::int64_t>(all - computed, 0));
  }
  for (const ClassReport& group : result.classes) {
    effort.set_eigen_products(effort.eigen_products() + static_cast<std::int64_t>(group.products));
    effort.set_warm_eigensolvers(effort.warm_eigensolvers() + (group.warm ? 1 : 0));
  }
  effort.set_seconds(seconds);
  return effort;
}

namespace {

std::string NameOf(const CampaignPlan& plan, ClassIndex index) {
  return index == kUnlabeled ? std::string() : plan.classes[static_cast<std::size_t>(index)];
}

storage::RoundScores ScoresOf(const CampaignPlan& plan, const CampaignPool& pool, const RoundResult& result,
                              std::span<const ClassIndex> labels) {
  storage::RoundScores scores;
  for (std::size_t row = 0; row < pool.rows(); ++row) {
    scores.items.push_back(pool.ids().TextOf(static_cast<RowIndex>(row)));
    scores.predicted.push_back(result.predicted.empty() ? std::string() : NameOf(plan, result.predicted[row]));
    scores.labeled.push_back(labels[row] != kUnlabeled);
    scores.leverage.push_back(result.leverage.empty() ? 0 : result.leverage[row]);
  }
  return scores;
}

/// "train" is STAGE_TRAIN.
v1::Stage StageOf(std::string_view name) {
  v1::Stage stage = v1::STAGE_UNSPECIFIED;
  const std::string value = absl::StrCat("STAGE_", absl::AsciiStrToUpper(std::string(name)));
  return v1::Stage_Parse(value, &stage) ? stage : v1::STAGE_UNSPECIFIED;
}

double SecondsOf(const RoundResult& result, std::string_view stage) {
  for (const StageSeconds& entry : result.seconds) {
    if (entry.stage == stage) return entry.seconds;
  }
  return 0;
}

}  // namespace

CampaignRound::CampaignRound(Surroundings surroundings, ModelHistory history)
    : plan_of_(std::move(surroundings.plan_of)),
      growing_pool_(surroundings.pool),
      store_(surroundings.store),
      reader_(surroundings.reader),
      events_(surroundings.events),
      history_(std::move(history)) {}

absl::Status CampaignRound::FollowPlan() {
  const std::string& specification = reader_.state().settings().specification;
  if (specification_ == specification) return absl::OkStatus();
  FULCRUM_ASSIGN_OR_RETURN(plan_, plan_of_(specification));
  specification_ = specification;
  // It was made for the old plan.
  runner_.reset();
  return absl::OkStatus();
}

absl::StatusOr<CampaignRound::Labels> CampaignRound::ReadLog(std::int64_t sequence) {
  FULCRUM_RETURN_IF_ERROR(reader_.CatchUp(sequence));
  FULCRUM_RETURN_IF_ERROR(FollowPlan());
  FULCRUM_ASSIGN_OR_RETURN(const auto pool, growing_pool_.Follow(reader_.state().appended(), store_.folder()));
  if (pool != pool_ && runner_ != nullptr) runner_->MoveTo(pool->features());
  pool_ = pool;
  Labels labels;
  labels.of_rows.assign(pool_->rows(), kUnlabeled);
  std::vector<bool> present(plan_.classes.size(), false);
  for (const storage::DecidedLabel& label : reader_.state().items().DecidedLabels()) {
    const auto row = pool_->ids().Find(label.item);
    const auto found = std::find(plan_.classes.begin(), plan_.classes.end(), label.value);
    if (!row || found == plan_.classes.end()) {
      return absl::DataLossError(
          absl::StrCat("the log has the label '", label.value, "' for '", label.item,
                       "', and the pool or the classes no longer have it. Did the pool's files change?"));
    }
    const auto index = static_cast<std::size_t>(found - plan_.classes.begin());
    labels.of_rows[*row] = static_cast<ClassIndex>(index);
    present[index] = true;
    ++labels.count;
  }
  reader_.state().items().Visit([&](const storage::Item& item) {
    const bool barred = item.status == storage::ItemStatus::kDisputed || item.status == storage::ItemStatus::kSetAside;
    const auto row = barred ? pool_->ids().Find(item.id) : std::nullopt;
    if (row) labels.barred.push_back(*row);
  });
  std::sort(labels.barred.begin(), labels.barred.end());
  labels.classes = static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
  return labels;
}

bool CampaignRound::StartsFromNothing(std::int64_t number) const {
  if (plan_.full_every > 0 && number % plan_.full_every == 0) return true;
  // What was asked for before the log that the last round was based on, that round has done.
  const storage::Round* const last = reader_.state().rounds().last();
  return reader_.state().retrain_requested() > (last == nullptr ? 0 : last->based_on);
}

absl::Status CampaignRound::PrepareRunner(std::int64_t number) {
  const bool from_nothing = StartsFromNothing(number);
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
    tuned_->Recall(history_.TuningBefore(number));
    tuned_->RecallLandmarks(landmarks);
  } else {
    runner_ = std::make_unique<RoundRunner>(plan_.round, pool_->features());
    runner_->RecallLandmarks(landmarks);
  }
  return absl::OkStatus();
}

const kernel::Features& CampaignRound::Features() const {
  return tuned_ != nullptr ? *tuned_->features().pool : pool_->features();
}

absl::StatusOr<RoundResult> CampaignRound::RunGraph(std::int64_t number, const Labels& labels, std::stop_token stop,
                                                    const CommitCallback& commit) {
  const bool trainable = labels.classes >= 2;
  const RoundInput input{.class_count = plan_.classes.size(),
                         .labels = labels.of_rows,
                         .predictions = {},
                         .queries_so_far = static_cast<std::size_t>(labels.count),
                         .barred = labels.barred,
                         .always_classify = trainable,
                         .probabilities = trainable};
  const auto progress = [&](std::string_view stage, std::size_t done, std::size_t total) {
    v1::CampaignEvent event;
    event.mutable_stage()->set_round(number);
    event.mutable_stage()->set_stage(StageOf(stage));
    event.mutable_stage()->set_done(static_cast<std::int64_t>(done));
    event.mutable_stage()->set_total(static_cast<std::int64_t>(total));
    events_.Publish(std::move(event));
  };
  FULCRUM_RETURN_IF_ERROR(PrepareRunner(number));
  if (tuned_ != nullptr) return tuned_->Run(*pool_, input, progress, std::move(stop), commit);
  return runner_->Run(input, progress, std::move(stop), commit);
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
  FULCRUM_ASSIGN_OR_RETURN(const std::string bytes, classify::SerializeSvm(*result.model, Features()));
  FULCRUM_ASSIGN_OR_RETURN(storage::RecordModelRequest record,
                           storage::WriteModelFile(store_.folder(), trained.round(), sequence, bytes));
  record.record = StoredText(trained);
  FULCRUM_RETURN_IF_ERROR(store_.Run(storage::RecordModel, std::move(record)).status());
  history_.Add(trained);
  v1::CampaignEvent event;
  *event.mutable_model() = trained;
  events_.Publish(std::move(event));
  return absl::OkStatus();
}

absl::Status CampaignRound::CommitBatch(std::int64_t number, std::int64_t sequence, const Labels& labels,
                                        const RoundResult& result, double seconds) {
  // Decision values are of the model of this round, if it has one.
  ConstMatrixView decisions;
  if (result.model) decisions = tuned_ != nullptr ? tuned_->decisions() : runner_->decisions();
  const storage::RoundBatch batch = RecordBatch(plan_, *pool_, Features(), result, labels.of_rows, decisions);
  storage::CommitBatchRequest request;
  request.round = number;
  request.based_on = sequence;
  request.only_if_running = true;
  for (const select::Pick& pick : result.selection.picks) {
    request.items.push_back({.item = pool_->ids().TextOf(pick.row), .cost = pool_->CostOf(pick.row)});
  }
  FULCRUM_ASSIGN_OR_RETURN(
      request.files,
      storage::WriteRoundFiles(store_.folder(), number, ScoresOf(plan_, *pool_, result, labels.of_rows), batch));
  const auto landmarks = tuned_ != nullptr ? tuned_->Landmarks() : runner_->Landmarks();
  if (!landmarks.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(request.files.emplace_back(),
                             storage::WriteLandmarkFile(store_.folder(), number, landmarks));
  }
  FULCRUM_RETURN_IF_ERROR(store_.Run(storage::CommitBatch, std::move(request)).status());
  v1::CampaignEvent event;
  event.mutable_batch()->set_round(number);
  event.mutable_batch()->set_items(static_cast<std::int64_t>(batch.items.size()));
  event.mutable_batch()->set_value(result.selection.certificate.value);
  event.mutable_batch()->set_bound(result.selection.certificate.upper_bound);
  event.mutable_batch()->set_seconds(seconds);
  events_.Publish(std::move(event));
  return absl::OkStatus();
}

absl::StatusOr<v1::ModelTrained> CampaignRound::Describe(std::int64_t number, const Labels& labels,
                                                         const RoundResult& result, double seconds) {
  v1::ModelTrained model;
  model.set_round(number);
  model.set_labels(labels.count);
  model.set_support_vectors(static_cast<std::int64_t>(result.svm->support_vectors));
  model.set_warm(result.svm->warm);
  model.set_train_seconds(SecondsOf(result, "train"));
  model.set_changed_share(NoteChanges(result));
  const std::string normalize = result.tuning == nullptr ? "" : result.tuning->chosen.normalize;
  FULCRUM_ASSIGN_OR_RETURN(const auto accuracy, pool_->Accuracy(*result.model, Features(), normalize));
  if (accuracy) model.set_accuracy(*accuracy);
  if (result.tuning != nullptr) *model.mutable_tuning() = ToProto(*result.tuning);
  *model.mutable_effort() = history_.EffortOf(number, result, seconds);
  return model;
}

absl::Status CampaignRound::Conclude(std::int64_t number, Purpose purpose, std::int64_t sequence, const Labels& labels,
                                     const RoundResult& result, double seconds, Outcome& outcome) {
  if (result.model) {
    FULCRUM_ASSIGN_OR_RETURN(const v1::ModelTrained trained, Describe(number, labels, result, seconds));
    if (trained.has_accuracy()) outcome.accuracy = trained.accuracy();
    FULCRUM_RETURN_IF_ERROR(StoreModel(sequence, result, trained));
    outcome.trained_on = sequence;
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
  const std::int64_t sequence = store_.status()->last_sequence;
  FULCRUM_ASSIGN_OR_RETURN(const Labels labels, ReadLog(sequence));
  FULCRUM_RETURN_IF_ERROR(RecallPredictions(number));
  v1::CampaignEvent started;
  started.mutable_round_started()->set_round(number);
  started.mutable_round_started()->set_labels(labels.count);
  events_.Publish(std::move(started));

  Outcome outcome;
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(); };
  absl::StatusOr<RoundResult> result = RunGraph(number, labels, std::move(stop), [&](const RoundResult& selected) {
    return Conclude(number, purpose, sequence, labels, selected, seconds(), outcome);
  });
  if (result.status().code() == absl::StatusCode::kOutOfRange) {
    outcome.over = std::string(result.status().message());
    return outcome;
  }
  FULCRUM_RETURN_IF_ERROR(result.status());
  if (outcome.over) return outcome;
  last_predicted_ = std::move(result->predicted);
  predicted_round_ = number;
  outcome.times =
      Times{.seconds = seconds(), .warm = result->svm && result->svm->warm, .stages = std::move(result->seconds)};
  return outcome;
}

}  // namespace fulcrum::pipeline
