// The end of a round: its model, the decision whether to go on, and the batch.

#include <algorithm>
#include <string_view>
#include <utility>

#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/campaign_round.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/campaign/stream/campaign_stream.h"
#include "pipeline/text/structured_log.h"
#include "stages/classify/model_file.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/rules/round_rules.h"

namespace fulcrum::pipeline {
namespace {

double SecondsOf(const RoundResult& result, std::string_view stage) {
  for (const StageSeconds& entry : result.seconds) {
    if (entry.stage == stage) return entry.seconds;
  }
  return 0;
}

}  // namespace

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

absl::Status CampaignRound::CommitBatch(std::int64_t number, std::int64_t sequence, const Labels& labels,
                                        const RoundResult& result, double seconds) {
  const Matrix<double> decisions = DecisionsOfPicks(result);
  const storage::RoundBatch batch =
      RecordBatch(plan_, *pool_, Features(), result, labels.of_rows, decisions.view(), given_.probabilities);
  storage::CommitBatchRequest request;
  request.round = number;
  request.based_on = sequence;
  request.only_if_running = true;
  for (const select::Pick& pick : result.selection.picks) {
    request.items.push_back({.item = pool_->ids().TextOf(pick.row), .cost = pool_->CostOf(pick.row)});
  }
  FULCRUM_ASSIGN_OR_RETURN(
      request.files,
      storage::WriteRoundFiles(store_.folder(), number, RecordScores(plan_, *pool_, result, labels.of_rows), batch));
  // A job has none that the next one would continue with.
  storage::LandmarksByClass landmarks;
  if (!plan_.cluster) landmarks = tuned_ != nullptr ? tuned_->Landmarks() : runner_->Landmarks();
  if (!landmarks.empty()) {
    FULCRUM_ASSIGN_OR_RETURN(request.files.emplace_back(),
                             storage::WriteLandmarkFile(store_.folder(), number, landmarks));
  }
  if (plan_.stream) {
    FULCRUM_ASSIGN_OR_RETURN(request.files.emplace_back(), StoreStreamModel(number, labels, result));
  }
  EventBroadcaster::Announcement announcement = events_.Announce();
  FULCRUM_ASSIGN_OR_RETURN(const storage::CommitBatchAnswer committed,
                           store_.Run(storage::CommitBatch, std::move(request)));
  const absl::Status removed = storage::RemoveOldFiles(store_.folder(), plan_.retention, number);
  // The batch is committed; the next round tries to remove the files again.
  if (!removed.ok()) {
    Log(LogLevel::kWarning, "files of old rounds are not removed",
        {{"campaign", plan_.name}, {"round", number}, {"error", std::string(removed.message())}});
  }
  v1::CampaignEvent event;
  event.mutable_batch()->set_round(number);
  event.mutable_batch()->set_items(static_cast<std::int64_t>(batch.items.size()));
  event.mutable_batch()->set_value(result.selection.certificate.value);
  event.mutable_batch()->set_bound(result.selection.certificate.upper_bound);
  event.mutable_batch()->set_seconds(seconds);
  events_.PublishChange(std::move(event), committed.sequence, std::move(announcement));
  return absl::OkStatus();
}

absl::StatusOr<std::string> CampaignRound::StoreStreamModel(std::int64_t number, const Labels& labels,
                                                            const RoundResult& result) {
  stream::StreamModelOptions options;
  options.seed = plan_.round.seed;
  const bool follows = result.tuning != nullptr && plan_.round.leverage_follows;
  RoundStreamModel model{.normalize = result.tuning == nullptr ? "" : result.tuning->chosen.normalize};
  FULCRUM_ASSIGN_OR_RETURN(model.model, stream::StreamModel::Make({.features = Features(),
                                                                   .labels = labels.of_rows,
                                                                   .classifier = result.model.get(),
                                                                   .kernel = follows ? result.tuning->leverage_kernel
                                                                                     : plan_.round.leverage_kernel},
                                                                  options));
  return WriteStreamModel(store_.folder(), number, model);
}

absl::StatusOr<v1::ModelTrained> CampaignRound::Describe(std::int64_t number, const Labels& labels,
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

absl::Status CampaignRound::Conclude(std::int64_t number, Purpose purpose, std::int64_t sequence, const Labels& labels,
                                     const RoundResult& result, double seconds, Outcome& outcome) {
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

}  // namespace fulcrum::pipeline
