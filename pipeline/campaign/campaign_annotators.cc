#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/campaign/campaign_items.h"
#include "pipeline/round/pool_source.h"
#include "pipeline/round/tuning.h"
#include "stages/classify/classifier.h"
#include "stages/consensus/consensus.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
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

/// The labels at the end of the log, by row.
struct LabeledRows {
  RowList rows = {};
  std::vector<std::size_t> classes = {};
  std::vector<double> weights = {};  ///< the probability that a label is right
  std::vector<bool> present = {};
};

absl::StatusOr<LabeledRows> ReadLabeledRows(const CampaignPlan& plan, const CampaignPool& pool,
                                            storage::CampaignReader& reader) {
  FULCRUM_RETURN_IF_ERROR(reader.CatchUp());
  LabeledRows labeled{.present = std::vector<bool>(plan.classes.size(), false)};
  for (const storage::DecidedLabel& label : reader.state().items().DecidedLabels()) {
    const auto row = pool.ids().Find(label.item);
    const auto found = std::find(plan.classes.begin(), plan.classes.end(), label.value);
    if (!row || found == plan.classes.end()) continue;
    labeled.rows.push_back(*row);
    labeled.classes.push_back(static_cast<std::size_t>(found - plan.classes.begin()));
    labeled.present[labeled.classes.back()] = true;
    labeled.weights.push_back(storage::LabelWeight(reader.state(), label.item));
  }
  const auto classes = std::count(labeled.present.begin(), labeled.present.end(), true);
  if (classes < 2 || labeled.rows.size() < kLeastLabels) {
    return absl::FailedPreconditionError(absl::StrCat("there are ", labeled.rows.size(), " labels of ", classes,
                                                      " classes; likely errors can be found from ", kLeastLabels,
                                                      " labels of two classes on"));
  }
  if (labeled.rows.size() > kMostLabels) {
    // The latest ones: the earlier ones could be reviewed before.
    const std::size_t excess = labeled.rows.size() - kMostLabels;
    labeled.rows.erase(labeled.rows.begin(), labeled.rows.begin() + static_cast<std::ptrdiff_t>(excess));
    labeled.classes.erase(labeled.classes.begin(), labeled.classes.begin() + static_cast<std::ptrdiff_t>(excess));
    labeled.weights.erase(labeled.weights.begin(), labeled.weights.begin() + static_cast<std::ptrdiff_t>(excess));
  }
  return labeled;
}

/// What the classifier of the last round is, and its kernel matrix of the labeled rows.
struct JudgingClassifier {
  const classify::ClassifierEntry* entry = nullptr;
  double c = 1;
  Matrix<double> gram = {};
};

absl::StatusOr<JudgingClassifier> PrepareJudge(Campaign& campaign, const CampaignPlan& plan, const CampaignPool& pool,
                                               const LabeledRows& labeled) {
  classify::SvmParameters parameters = plan.round.svm;
  std::unique_ptr<kernel::Features> own;
  const kernel::Features* features = &pool.features();
  RowList rows = labeled.rows;
  if (plan.round.tune) {
    FULCRUM_ASSIGN_OR_RETURN(const auto models, campaign.store().Run(storage::ListModels, {}));
    FULCRUM_ASSIGN_OR_RETURN(const ModelHistory history, ModelHistory::Read(models));
    const auto tuning = models.empty() ? nullptr : history.TuningBefore(models.back().round + 1);
    if (tuning == nullptr) return absl::FailedPreconditionError("no model is trained yet; wait for the first one");
    UseChoice(tuning->chosen, plan.classes.size(), parameters);
    FULCRUM_ASSIGN_OR_RETURN(ingest::PoolFeatures raw, pool.RawRows(labeled.rows));
    FULCRUM_ASSIGN_OR_RETURN(const auto normalizer, pool.NormalizerFor(tuning->chosen.normalize));
    normalizer->Apply(raw);
    own = MakeFeatures(std::move(raw));
    features = own.get();
    std::iota(rows.begin(), rows.end(), RowIndex{0});
  }
  JudgingClassifier judge{.c = parameters.c};
  FULCRUM_ASSIGN_OR_RETURN(judge.entry, classify::FindClassifier(parameters.classifier));
  judge.gram = Matrix<double>(rows.size(), rows.size());
  kernel::ComputeKernelSymmetric(parameters.kernel, *features, rows, judge.gram.view());
  return judge;
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

absl::StatusOr<v1::ListLabelErrorsResponse> ListLabelErrors(Campaign& campaign, std::size_t most) {
  const std::shared_ptr<const CampaignPlan> plan = campaign.plan();
  const std::shared_ptr<const CampaignPool> pool = campaign.pool();
  FULCRUM_ASSIGN_OR_RETURN(const auto reader, storage::CampaignReader::Open(campaign.folder()));
  FULCRUM_ASSIGN_OR_RETURN(const LabeledRows labeled, ReadLabeledRows(*plan, *pool, *reader));
  FULCRUM_ASSIGN_OR_RETURN(const JudgingClassifier judge, PrepareJudge(campaign, *plan, *pool, labeled));
  std::vector<std::uint32_t> positions(labeled.rows.size());
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<double> costs(plan->classes.size(), judge.c);
  const Matrix<double> probabilities = classify::HeldOutProbabilities(
      *judge.entry, {judge.gram.view(), positions, labeled.classes, plan->classes.size(), costs, labeled.weights},
      plan->round.seed);
  std::vector<ClassIndex> labels(labeled.classes.begin(), labeled.classes.end());
  const auto errors = consensus::FindLabelErrors(labels, probabilities.view());
  v1::ListLabelErrorsResponse response;
  for (const consensus::LabelError& error : errors) {
    if (static_cast<std::size_t>(response.errors_size()) >= most) break;
    v1::LabelError& added = *response.add_errors();
    added.set_item_id(pool->ids().TextOf(labeled.rows[error.example]));
    added.set_label(plan->ClassName(error.label));
    added.set_suggested(plan->ClassName(error.suggested));
    added.set_margin(error.margin);
  }
  response.set_total_size(static_cast<std::int64_t>(errors.size()));
  response.set_labels(static_cast<std::int64_t>(labels.size()));
  return response;
}

}  // namespace fulcrum::pipeline
