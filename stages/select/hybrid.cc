#include "stages/select/hybrid.h"

#include "stages/core/status_macros.h"
#include "stages/select/class_leverage.h"
#include "stages/select/diverse_batch.h"
#include "stages/select/posterior.h"
#include "stages/select/ranks.h"

namespace fulcrum::select {
namespace {

constexpr double kCoverageNoise = 0.1;
// After this many queries leverage and coverage together weigh as much as uncertainty.
constexpr double kQueriesToEvenWeights = 15;

/// s of every unlabeled row, in the order of `rows`.
absl::StatusOr<std::vector<double>> MixedScores(const Candidates& candidates, const ScoredRows& by_leverage) {
  const RowList labeled = LabeledRows(candidates.labels);
  FULCRUM_ASSIGN_OR_RETURN(const Posterior posterior, Posterior::Compute({.features = candidates.features,
                                                                          .kernel = candidates.classifier_kernel,
                                                                          .labeled = labeled,
                                                                          .candidates = by_leverage.rows,
                                                                          .noise = kCoverageNoise}));
  std::vector<double> doubts;
  doubts.reserve(by_leverage.rows.size());
  for (const RowIndex row : by_leverage.rows) doubts.push_back(1 - candidates.confidence[row]);

  const std::vector<double> leverage = ScaledRanks(by_leverage.scores);
  const std::vector<double> coverage = ScaledRanks(posterior.variances());
  const std::vector<double> uncertainty = ScaledRanks(doubts);
  const double weight = 1 / (1 + static_cast<double>(candidates.queries_so_far) / kQueriesToEvenWeights);
  std::vector<double> scores(by_leverage.rows.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = weight * (leverage[i] + coverage[i]) / 2 + (1 - weight) * uncertainty[i];
  }
  return scores;
}

/// By group and position; what is labeled has no score, and the set function needs none from it.
std::vector<std::vector<double>> ByGroup(const Candidates& candidates, const ScoredRows& scored) {
  std::vector<double> by_row(candidates.labels.size(), 0.0);
  for (std::size_t i = 0; i < scored.rows.size(); ++i) by_row[scored.rows[i]] = scored.scores[i];
  std::vector<std::vector<double>> by_group;
  for (const Group& group : candidates.groups) {
    std::vector<double>& scores = by_group.emplace_back();
    for (const RowIndex row : group.rows) scores.push_back(by_row[row]);
  }
  return by_group;
}

class Hybrid final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true, .class_groups = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    ScoredRows scored = ScoreUnlabeledByLeverage(candidates);
    FULCRUM_ASSIGN_OR_RETURN(scored.scores, MixedScores(candidates, scored));
    if (candidates.batch > 1) return SelectDiverseBatch(candidates, ByGroup(candidates, scored));
    Selection selection;
    selection.picks = TopByScore(scored.rows, scored.scores, 1);
    AnnotateFromGroups(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeHybrid() {
  return std::make_unique<Hybrid>();
}

}  // namespace fulcrum::select
