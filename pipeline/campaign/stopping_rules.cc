#include "pipeline/campaign/stopping_rules.h"

#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {

std::int64_t StableRounds(std::span<const ModelScore> models, double share) {
  std::int64_t rounds = 0;
  for (const ModelScore& model : models) rounds = model.changed_share <= share ? rounds + 1 : 0;
  return rounds;
}

std::int64_t PlateauRounds(std::span<const ModelScore> models, double improvement) {
  std::int64_t rounds = 0;
  std::optional<double> best;
  for (const ModelScore& model : models) {
    const double quality = model.accuracy.value_or(1 - model.changed_share);
    const bool better = !best || quality > *best + improvement;
    rounds = better ? 0 : rounds + 1;
    if (better) best = quality;
  }
  return rounds;
}

std::optional<std::string> StoppingReason(const StoppingRules& rules, const CampaignProgress& progress) {
  if (rules.labels > 0 && progress.labels >= rules.labels) {
    return absl::StrFormat("%d labels were bought, of the %d that it may buy", progress.labels, rules.labels);
  }
  if (rules.cost > 0 && progress.cost >= rules.cost) {
    return absl::StrFormat("labels for %g were bought, of the %g that it may spend", progress.cost, rules.cost);
  }
  if (rules.rounds > 0 && progress.rounds >= rules.rounds) {
    return absl::StrFormat("%d rounds were answered, of the %d asked for", progress.rounds, rules.rounds);
  }
  if (progress.models.empty()) return std::nullopt;
  const std::optional<double> accuracy = progress.models.back().accuracy;
  if (rules.accuracy > 0 && accuracy && *accuracy >= rules.accuracy) {
    return absl::StrFormat("the validation set is predicted right to %.4f, and %.4f was asked for", *accuracy,
                           rules.accuracy);
  }
  const std::int64_t stable = StableRounds(progress.models, rules.stable_share);
  if (rules.stable_rounds > 0 && stable >= rules.stable_rounds) {
    return absl::StrFormat("for %d rounds no more than a share of %g of the predictions changed", stable,
                           rules.stable_share);
  }
  const std::int64_t plateau = PlateauRounds(progress.models, rules.plateau_improvement);
  if (rules.plateau_rounds > 0 && plateau >= rules.plateau_rounds) {
    return absl::StrFormat("for %d rounds %s was not bettered by more than %g", plateau,
                           accuracy ? "the accuracy" : "the share of predictions that stay", rules.plateau_improvement);
  }
  return std::nullopt;
}

}  // namespace fulcrum::pipeline
