#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/status_macros.h"

namespace fulcrum::pipeline {
namespace {

/// The scores of one class while the strategy looks at them: some may be made exact.
struct SettledClass {
  const ScoredClass& scored;
  double seconds = 0;
  std::vector<double> refined_scores = {};  // a copy, made when the first score is refined
  std::size_t refined = 0;

  std::span<const double> scores() const { return refined > 0 ? refined_scores : scored.scores; }
};

/// What each row costs; rows that must not be picked cannot be bought. Empty without a cost budget.
std::vector<double> CostsOf(const RoundRequest& request) {
  if (request.spec.cost_budget <= 0) return {};
  std::vector<double> costs(request.input.costs.begin(), request.input.costs.end());
  for (const RowIndex row : request.input.barred) costs[row] = std::numeric_limits<double>::infinity();
  return costs;
}

/// OutOfRange if there is a cost budget that allows no row.
absl::Status CheckSomethingFits(const RoundRequest& request, const select::CostLimit& limit,
                                const select::Selection& selection) {
  if (!limit.limits() || !selection.picks.empty()) return absl::OkStatus();
  double cheapest = std::numeric_limits<double>::infinity();
  for (std::size_t row = 0; row < limit.costs.size(); ++row) {
    if (request.input.labels[row] == kUnlabeled) cheapest = std::min(cheapest, limit.costs[row]);
  }
  return absl::OutOfRangeError(
      absl::StrFormat("the cheapest label costs %g, and %g may be spent in the round; nothing is left to select",
                      cheapest, limit.budget));
}

/// Rows that may be picked.
std::size_t PlacesOf(const RoundRequest& request) {
  return request.spec.batch - std::min(request.spec.batch, request.input.places_taken);
}

select::Candidates CandidatesOf(const RoundRequest& request, const PredictedPool& pool,
                                std::span<const select::Group> groups, std::span<const double> leverage,
                                std::span<const double> costs) {
  select::Candidates candidates;
  candidates.features = &request.features;
  candidates.leverage_kernel = request.spec.leverage_kernel;
  candidates.classifier_kernel = request.spec.svm.kernel;
  candidates.class_count = request.input.class_count;
  candidates.labels = request.input.labels;
  candidates.predicted = pool.predicted;
  candidates.confidence = pool.confidence;
  candidates.margin = pool.margin;
  if (request.needs.probabilities) {
    candidates.probabilities = {pool.probabilities.data(), pool.predicted.size(), request.input.class_count};
  }
  candidates.groups = groups;
  candidates.queries_so_far = request.input.queries_so_far;
  // Excluded rows may be among the picks, and are taken out afterwards.
  candidates.batch = PlacesOf(request) + (costs.empty() ? request.input.barred.size() : 0);
  candidates.cost = {.costs = costs, .budget = std::min(request.spec.cost_budget, request.input.cost_left)};
  candidates.alpha = request.spec.alpha;
  candidates.scale = request.spec.leverage_scale;
  candidates.seed = request.spec.seed;
  if (request.needs.pool_leverage) candidates.pool_leverage = leverage;
  return candidates;
}

/// Writes each class's scores to the rows they belong to.
void CollectLeverage(std::span<const SettledClass> classes, std::size_t rows, std::vector<double>& leverage) {
  if (classes.empty()) return;
  leverage.assign(rows, 0.0);
  for (const SettledClass& settled : classes) {
    const std::span<const double> scores = settled.scores();
    for (std::size_t i = 0; i < scores.size(); ++i) leverage[settled.scored.rows[i]] = scores[i];
  }
}

ClassReport ReportOf(const SettledClass& settled) {
  ClassReport report = settled.scored.report;
  report.seconds.push_back({kScoreStage, settled.seconds});
  if (settled.scored.slack > 0) {
    absl::StrAppendFormat(&report.reason, "; %d that could matter scored again", settled.refined);
  }
  if (const std::size_t carried = settled.scored.similarities->TakeCarried(); carried > 0) {
    absl::StrAppendFormat(&report.reason, "; similarities to %d labeled known before", carried);
  }
  return report;
}

/// One selection, with the scores that it settles on the way.
class SelectRun {
 public:
  SelectRun(const RoundRequest& request, const ScoredPool& scored) : request_(request), scored_(scored) {
    for (const auto& group : scored.groups) classes_.push_back({.scored = *group->scored, .seconds = group->seconds});
  }

  absl::StatusOr<RoundResult> Run() {
    RoundResult result;
    CollectLeverage(classes_, request_.features.rows(), result.leverage);
    if (request_.input.select) {
      const std::vector<select::Group> groups = MakeGroups();
      const std::vector<double> costs = CostsOf(request_);
      const select::Candidates candidates = CandidatesOf(request_, *scored_.pool, groups, result.leverage, costs);
      FULCRUM_ASSIGN_OR_RETURN(result.selection, request_.strategy.Select(candidates));
      FULCRUM_RETURN_IF_ERROR(CheckSomethingFits(request_, candidates.cost, result.selection));
      if (AnyRefined()) CollectLeverage(classes_, request_.features.rows(), result.leverage);
      DropBarred(request_, result.selection.picks);
    }
    for (const SettledClass& settled : classes_) result.classes.push_back(ReportOf(settled));
    result.predicted = scored_.pool->predicted;
    if (request_.input.confidence) result.confidence = scored_.pool->confidence;
    result.model = scored_.pool->classifier->model;
    result.tuning = request_.spec.tuning;
    result.svm = scored_.pool->classifier->report;
    if (result.svm) result.svm->decision_columns_computed = scored_.pool->columns_computed;
    return result;
  }

 private:
  std::vector<select::Group> MakeGroups() {
    std::vector<select::Group> groups;
    for (SettledClass& settled : classes_) {
      const ScoredClass& scored = settled.scored;
      if (scored.report.class_index == kWholePool) continue;
      select::Group group;
      group.class_index = scored.report.class_index;
      group.rank = scored.rank;
      group.rows = scored.rows;
      if (scored.slack > 0) settled.refined_scores = scored.scores;
      group.leverage = scored.slack > 0 ? settled.refined_scores : scored.scores;
      group.leverage_slack = scored.slack;
      group.similarities = scored.similarities;
      group.refine_leverage = [&settled](std::span<const std::size_t> positions) { return Refine(settled, positions); };
      group.kernel = scored.kernel;
      groups.push_back(group);
    }
    return groups;
  }

  /// The exact scores of the rows at these positions, which replace those known so far.
  static std::vector<double> Refine(SettledClass& settled, std::span<const std::size_t> positions) {
    RowList rows;
    rows.reserve(positions.size());
    for (const std::size_t position : positions) rows.push_back(settled.scored.rows[position]);
    std::vector<double> scores = settled.scored.rescore(rows);
    for (std::size_t i = 0; i < positions.size(); ++i) settled.refined_scores[positions[i]] = scores[i];
    settled.refined += positions.size();
    return scores;
  }

  bool AnyRefined() const {
    for (const SettledClass& settled : classes_) {
      if (settled.refined > 0) return true;
    }
    return false;
  }

  const RoundRequest& request_;
  const ScoredPool& scored_;
  std::vector<SettledClass> classes_;
};

}  // namespace

void DropBarred(const RoundRequest& request, std::vector<select::Pick>& picks) {
  if (request.input.barred.empty()) return;
  const absl::flat_hash_set<RowIndex> barred(request.input.barred.begin(), request.input.barred.end());
  std::erase_if(picks, [&](const select::Pick& pick) { return barred.contains(pick.row); });
  if (picks.size() > PlacesOf(request)) picks.resize(PlacesOf(request));
}

absl::StatusOr<RoundResult> SelectBatch(const RoundRequest& request, const ScoredPool& scored) {
  return SelectRun(request, scored).Run();
}

}  // namespace fulcrum::pipeline
