#include "stages/select/hybrid.h"

#include <algorithm>

#include "stages/core/status_macros.h"
#include "stages/select/class_leverage.h"
#include "stages/select/diverse_batch.h"
#include "stages/select/posterior.h"
#include "stages/select/ranks.h"

namespace fulcrum::select {
namespace {

constexpr double kNoise = 0.1;
constexpr double kLeverageShare = 0.75;
// A class is asked for once it is so many labels behind; a difference of one is unavoidable.
constexpr std::size_t kLabelsBehind = 2;
// After this many queries leverage and coverage together weigh as much as uncertainty.
constexpr double kQueriesToEvenWeights = 30;

double EarlyWeight(std::size_t queries) {
  const double ratio = static_cast<double>(queries) / kQueriesToEvenWeights;
  return 1 / (1 + ratio * ratio);
}

std::vector<std::size_t> LabelCounts(const Candidates& candidates) {
  std::vector<std::size_t> counts(candidates.class_count, 0);
  for (const ClassIndex label : candidates.labels) {
    if (label != kUnlabeled) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

/// One row a class: +n / 2n_c for its examples and -n / 2(n - n_c) for the others, so that both sides weigh the same.
Matrix<double> BalancedTargets(const Candidates& candidates, std::span<const RowIndex> labeled,
                               std::span<const std::size_t> counts) {
  const auto all = static_cast<double>(labeled.size());
  Matrix<double> targets = Matrix<double>::Zero(counts.size(), labeled.size());
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const auto own = static_cast<double>(counts[c]);
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      const bool member = candidates.labels[labeled[i]] == static_cast<ClassIndex>(c);
      targets(c, i) = member ? all / (2 * own) : -all / (2 * (all - own));
    }
  }
  return targets;
}

/// s of every unlabeled row and the class it most likely has, in the order of `rows`.
struct MixedScores {
  std::vector<double> scores;
  std::vector<std::size_t> likely_class;
};

std::vector<std::size_t> LikelyClasses(ConstMatrixView means) {
  std::vector<std::size_t> classes(means.rows());
  for (std::size_t i = 0; i < means.rows(); ++i) {
    const auto row = means.row(i);
    classes[i] = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
  }
  return classes;
}

absl::StatusOr<MixedScores> Mix(const Candidates& candidates, const ScoredRows& by_leverage,
                                std::span<const std::size_t> counts) {
  const RowList labeled = LabeledRows(candidates.labels);
  const Matrix<double> targets = BalancedTargets(candidates, labeled, counts);
  FULCRUM_ASSIGN_OR_RETURN(const Posterior posterior, Posterior::Compute({.features = candidates.features,
                                                                          .kernel = candidates.classifier_kernel,
                                                                          .labeled = labeled,
                                                                          .candidates = by_leverage.rows,
                                                                          .noise = kNoise,
                                                                          .targets = targets.view()}));
  std::vector<double> doubts;
  doubts.reserve(by_leverage.rows.size());
  for (const RowIndex row : by_leverage.rows) doubts.push_back(1 - candidates.confidence[row]);

  const std::vector<double> leverage = ScaledRanks(by_leverage.scores);
  const std::vector<double> coverage = ScaledRanks(posterior.variances());
  const std::vector<double> uncertainty = ScaledRanks(doubts);
  const double weight = EarlyWeight(candidates.queries_so_far);
  MixedScores mixed{std::vector<double>(by_leverage.rows.size()), LikelyClasses(posterior.means())};
  for (std::size_t i = 0; i < mixed.scores.size(); ++i) {
    const double early = kLeverageShare * leverage[i] + (1 - kLeverageShare) * coverage[i];
    mixed.scores[i] = weight * early + (1 - weight) * uncertainty[i];
  }
  return mixed;
}

/// The candidates that the class with the fewest labels most likely has; all where no class lags or it has none.
ScoredRows OfLaggingClass(const ScoredRows& scored, std::span<const std::size_t> likely_class,
                          std::span<const std::size_t> counts) {
  // A class without a single label is unknown to the regression: nothing is likely of it.
  std::size_t lagging = counts.size();
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] > 0 && (lagging == counts.size() || counts[c] < counts[lagging])) lagging = c;
  }
  if (lagging == counts.size() || counts[lagging] + kLabelsBehind > *std::ranges::max_element(counts)) return scored;
  ScoredRows kept;
  for (std::size_t i = 0; i < scored.rows.size(); ++i) {
    if (likely_class[i] != lagging) continue;
    kept.rows.push_back(scored.rows[i]);
    kept.scores.push_back(scored.scores[i]);
  }
  return kept.rows.empty() ? scored : kept;
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
    const std::vector<std::size_t> counts = LabelCounts(candidates);
    FULCRUM_ASSIGN_OR_RETURN(const MixedScores mixed, Mix(candidates, scored, counts));
    scored.scores = mixed.scores;
    if (candidates.batch > 1) return SelectDiverseBatch(candidates, ByGroup(candidates, scored));
    const ScoredRows eligible = OfLaggingClass(scored, mixed.likely_class, counts);
    Selection selection;
    selection.picks = TopByScore(eligible.rows, eligible.scores, 1);
    AnnotateFromGroups(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeHybrid() {
  return std::make_unique<Hybrid>();
}

}  // namespace fulcrum::select
