#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign_items.h"
#include "pipeline/campaign/round_labels.h"
#include "pipeline/round/tuning.h"
#include "stages/consensus/consensus.h"
#include "stages/core/status_macros.h"
#include "storage/campaign_reader.h"
#include "storage/maintenance/maintenance.h"
#include "storage/rules/annotator_rules.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kLeastLabels = 10;
// Cross-validation trains on all labels five times, with a kernel matrix of all of them.
constexpr std::size_t kMostLabels = 5000;

v1::Annotator Describe(const storage::AnnotatorSummary& summary) {
  v1::Annotator annotator;
  const consensus::AnnotatorQuality& quality = summary.quality;
  annotator.set_name(summary.name);
  annotator.set_votes(static_cast<std::int64_t>(quality.votes));
  if (quality.votes > 0) annotator.set_accuracy(quality.accuracy);
  annotator.set_accuracy_low(quality.interval.low);
  annotator.set_accuracy_high(quality.interval.high);
  for (const double value : quality.confusion) annotator.add_confusion(value);
  annotator.set_gold_votes(static_cast<std::int64_t>(quality.gold_votes));
  annotator.set_gold_right(static_cast<std::int64_t>(quality.gold_right));
  if (summary.kappa) annotator.set_kappa(*summary.kappa);
  if (quality.drift) annotator.set_drift(*quality.drift);
  if (quality.drift_z) annotator.set_drift_z(*quality.drift_z);
  if (summary.answer_seconds) annotator.set_answer_seconds(*summary.answer_seconds);
  annotator.set_labels(summary.labels);
  annotator.set_skips(summary.skips);
  annotator.set_skip_rate(summary.SkipRate());
  annotator.set_expired_leases(summary.expired_leases);
  annotator.set_cost(summary.cost);
  if (summary.last_seen) {
    *annotator.mutable_last_seen() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(storage::ToMicros(*summary.last_seen));
  }
  annotator.set_paused_reason(summary.paused);
  return annotator;
}

/// The labels at the end of the log.
absl::StatusOr<LabeledRows> ReadLabeledRows(const CampaignPlan& plan, const CampaignPool& pool,
                                            storage::CampaignReader& reader) {
  FULCRUM_RETURN_IF_ERROR(reader.CatchUp());
  LabeledRows labeled;
  std::vector<bool> present(plan.classes.size(), false);
  for (const storage::DecidedLabel& label : reader.state().items().DecidedLabels()) {
    const auto row = pool.ids().Find(label.item);
    const auto found = std::find(plan.classes.begin(), plan.classes.end(), label.value);
    if (!row || found == plan.classes.end()) continue;
    labeled.rows.push_back(*row);
    labeled.classes.push_back(static_cast<std::size_t>(found - plan.classes.begin()));
    present[labeled.classes.back()] = true;
    labeled.weights.push_back(storage::LabelWeight(reader.state(), label.item));
  }
  const auto classes = std::count(present.begin(), present.end(), true);
  if (classes < 2 || labeled.rows.size() < kLeastLabels) {
    return absl::FailedPreconditionError(absl::StrCat("there are ", labeled.rows.size(), " labels of ", classes,
                                                      " classes; likely errors can be found from ", kLeastLabels,
                                                      " labels of two classes on"));
  }
  // The latest ones: the earlier ones could be reviewed before.
  labeled.KeepLast(kMostLabels);
  return labeled;
}

/// What the classifier of the last round has chosen for itself; null if it does not tune itself.
absl::StatusOr<std::shared_ptr<const TunedSettings>> TuningOf(Campaign& campaign, const CampaignPlan& plan) {
  if (!plan.round.tune) return nullptr;
  FULCRUM_ASSIGN_OR_RETURN(const auto models, campaign.store().Run(storage::ListModels, {}));
  FULCRUM_ASSIGN_OR_RETURN(const ModelHistory history, ModelHistory::Read(models));
  auto tuning = models.empty() ? nullptr : history.TuningBefore(models.back().round + 1);
  if (tuning == nullptr) return absl::FailedPreconditionError("no model is trained yet; wait for the first one");
  return tuning;
}

}  // namespace

absl::StatusOr<v1::ListAnnotatorsResponse> ListAnnotators(Campaign& campaign) {
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(campaign.folder()));
  FULCRUM_ASSIGN_OR_RETURN(const storage::AnnotatorReport report,
                           storage::ReportAnnotators(*reader, campaign.plan()->classes));
  v1::ListAnnotatorsResponse response;
  for (const storage::AnnotatorSummary& summary : report.annotators) *response.add_annotators() = Describe(summary);
  response.mutable_classes()->Assign(report.classes.begin(), report.classes.end());
  if (report.cohen_kappa) response.set_cohen_kappa(*report.cohen_kappa);
  if (report.fleiss_kappa) response.set_fleiss_kappa(*report.fleiss_kappa);
  if (report.krippendorff_alpha) response.set_krippendorff_alpha(*report.krippendorff_alpha);
  response.set_votes(report.votes);
  response.set_items(report.items);
  return response;
}

absl::Status PauseAnnotator(Campaign& campaign, const v1::PauseAnnotatorRequest& request, const ChangeOrder& order) {
  return campaign.store()
      .Run(storage::PauseAnnotator, {.annotator = request.annotator(),
                                     .by = order.by,
                                     .reason = request.reason(),
                                     .request_id = order.request_id})
      .status();
}

absl::Status ResumeAnnotator(Campaign& campaign, const v1::ResumeAnnotatorRequest& request, const ChangeOrder& order) {
  return campaign.store()
      .Run(storage::ResumeAnnotator, {.annotator = request.annotator(),
                                      .by = order.by,
                                      .reason = request.reason(),
                                      .request_id = order.request_id})
      .status();
}

namespace {

absl::StatusOr<v1::ListLabelErrorsResponse> FindAllLabelErrors(Campaign& campaign, const CampaignPlan& plan) {
  const std::shared_ptr<const CampaignPool> pool = campaign.pool();
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(campaign.folder()));
  FULCRUM_ASSIGN_OR_RETURN(const LabeledRows labeled, ReadLabeledRows(plan, *pool, *reader));
  FULCRUM_ASSIGN_OR_RETURN(const auto tuning, TuningOf(campaign, plan));
  FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> probabilities, PredictHeldOut(plan, *pool, tuning.get(), labeled));
  const std::vector<ClassIndex> labels(labeled.classes.begin(), labeled.classes.end());
  v1::ListLabelErrorsResponse response;
  for (const consensus::LabelError& error : consensus::FindLabelErrors(labels, probabilities.view())) {
    const std::string id = pool->ids().TextOf(labeled.rows[error.example]);
    const storage::Item* const item = reader->state().items().Find(id);
    // An administrator has decided it, and would find it here again and again.
    if (item != nullptr && !item->imported.empty()) continue;
    v1::LabelError& added = *response.add_errors();
    added.set_item_id(id);
    added.set_label(plan.ClassName(error.label));
    added.set_suggested(plan.ClassName(error.suggested));
    added.set_margin(error.margin);
  }
  response.set_total_size(response.errors_size());
  response.set_labels(static_cast<std::int64_t>(labels.size()));
  return response;
}

}  // namespace

absl::StatusOr<v1::ListLabelErrorsResponse> ListLabelErrors(Campaign& campaign, std::size_t most) {
  FoundLabelErrors& found = campaign.label_errors();
  // Others who ask meanwhile wait for the same answer.
  const std::scoped_lock lock(found.mutex);
  const std::shared_ptr<const CampaignPlan> plan = campaign.plan();
  const auto status = campaign.store().status();
  const std::string state = absl::StrCat(status->last_label_sequence, " ", status->estimated_sequence, " ",
                                         status->round, " ", storage::LifeName(status->life));
  if (found.plan != plan || found.state != state) {
    FULCRUM_ASSIGN_OR_RETURN(found.errors, FindAllLabelErrors(campaign, *plan));
    found.plan = plan;
    found.state = state;
    ++found.computed;
  }
  v1::ListLabelErrorsResponse response = found.errors;
  const auto kept = static_cast<int>(std::min(most, static_cast<std::size_t>(response.errors_size())));
  response.mutable_errors()->DeleteSubrange(kept, response.errors_size() - kept);
  return response;
}

absl::StatusOr<storage::LikelyErrors> FindLikelyErrors(Campaign& campaign) {
  storage::LikelyErrors errors;
  const auto found = ListLabelErrors(campaign, std::numeric_limits<int>::max());
  if (absl::IsFailedPrecondition(found.status())) return errors;
  FULCRUM_RETURN_IF_ERROR(found.status());
  for (const v1::LabelError& error : found->errors()) errors[error.item_id()] = error.suggested();
  return errors;
}

}  // namespace fulcrum::pipeline
