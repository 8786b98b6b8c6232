// The batch of a round: which examples are in it besides those that the strategy picked, and what is stored with it.

#include <algorithm>
#include <utility>

#include "fulcrum/v1/campaign_service.pb.h"
#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/campaign_round.h"
#include "pipeline/campaign/stream/campaign_stream.h"
#include "pipeline/text/structured_log.h"
#include "stages/classify/svm_model.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_files.h"
#include "storage/rules/round_rules.h"

namespace fulcrum::pipeline {
namespace {

RowList PickedRows(const select::Selection& selection) {
  RowList rows;
  for (const select::Pick& pick : selection.picks) rows.push_back(pick.row);
  return rows;
}

}  // namespace

Matrix<double> CampaignRound::DecisionsOf(const RoundResult& result, std::span<const RowIndex> rows) const {
  if (!result.model) return {};
  Matrix<double> decisions(rows.size(), result.model->pairs.size());
  if (plan_.cluster) {
    classify::DecisionValues(*result.model, Features(), Features(), rows, decisions.view());
    return decisions;
  }
  const ConstMatrixView of_rows = tuned_ != nullptr ? tuned_->decisions() : runner_->decisions();
  if (of_rows.rows() < pool_->rows()) return {};
  for (std::size_t i = 0; i < rows.size(); ++i) std::ranges::copy(of_rows.row(rows[i]), decisions.row(i).begin());
  return decisions;
}

absl::StatusOr<storage::Voices> CampaignRound::Hear(const RoundLabels& labels, const RoundResult& result) const {
  const storage::CampaignSettings& settings = reader_.state().settings();
  const bool heard = settings.consensus == storage::CampaignSettings::Consensus::kDawidSkene &&
                     settings.classifier_weight > 0 && result.model != nullptr;
  if (!heard) return storage::Voices();
  RowList rows = PickedRows(result.selection);
  rows.insert(rows.end(), labels.voted.begin(), labels.voted.end());
  const Matrix<double> decisions = DecisionsOf(result, rows);
  if (decisions.rows() < rows.size()) rows.clear();
  return HearClassifier(plan_, *pool_, *result.model, result.tuning.get(),
                        {.labeled = labels.weighted, .others = rows, .decisions = decisions.view()});
}

std::vector<storage::BatchedItem> CampaignRound::TakeAgain(const storage::Voices& voices, const RoundLabels& labels,
                                                           select::Selection& selection) const {
  // With a budget per round the picks were chosen for what they cost.
  if (voices.probabilities.empty() || plan_.round.cost_budget > 0) return {};
  std::vector<std::string> items;
  for (const select::Pick& pick : selection.picks) items.push_back(pool_->ids().TextOf(pick.row));
  const std::size_t places = plan_.round.batch - labels.carried;
  std::vector<storage::BatchedItem> again = storage::DoubtfulItems(reader_.state(), voices, items, places);
  // A stream's rows are not in the files of the pool yet.
  std::erase_if(again, [&](const storage::BatchedItem& item) { return !pool_->ids().Find(item.item); });
  selection.picks.resize(std::min(selection.picks.size(), places - again.size()));
  return again;
}

absl::Status CampaignRound::CommitBatch(std::int64_t number, std::int64_t sequence, const RoundLabels& labels,
                                        RoundResult result, double seconds) {
  storage::CommitBatchRequest request;
  FULCRUM_ASSIGN_OR_RETURN(request.voices, Hear(labels, result));
  request.again = TakeAgain(request.voices, labels, result.selection);
  const Matrix<double> decisions = DecisionsOf(result, PickedRows(result.selection));
  const storage::RoundBatch batch =
      RecordBatch(plan_, *pool_, Features(), result, labels.of_rows, decisions.view(), given_.probabilities);
  request.round = number;
  request.based_on = sequence;
  request.places = static_cast<std::int64_t>(plan_.round.batch);
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
  const std::size_t again = request.again.size();
  EventBroadcaster::Announcement announcement = events_.Announce();
  FULCRUM_ASSIGN_OR_RETURN(const storage::CommitBatchAnswer committed,
                           store_.Run(storage::CommitBatch, std::move(request)));
  const absl::Status removed = storage::RemoveOldFiles(store_.folder(), plan_.retention, number);
  // The batch is committed; the next round tries to remove the files again.
  if (!removed.ok()) {
    Log(LogLevel::kWarning, "files of old rounds are not removed",
        {{"campaign", plan_.name}, {"round", number}, {"error", std::string(removed.message())}});
  }
  storage::RemoveFeatureFilesBefore(store_.folder(), given_task_.before.round);
  v1::CampaignEvent event;
  event.mutable_batch()->set_round(number);
  event.mutable_batch()->set_items(static_cast<std::int64_t>(batch.items.size() + again + labels.carried));
  event.mutable_batch()->set_value(result.selection.certificate.value);
  event.mutable_batch()->set_bound(result.selection.certificate.upper_bound);
  event.mutable_batch()->set_seconds(seconds);
  events_.PublishChange(std::move(event), committed.sequence, std::move(announcement));
  return absl::OkStatus();
}

absl::StatusOr<std::string> CampaignRound::StoreStreamModel(std::int64_t number, const RoundLabels& labels,
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

}  // namespace fulcrum::pipeline
