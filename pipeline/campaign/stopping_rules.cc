#include "pipeline/campaign/stopping_rules.h"

#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {

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
  if (rules.accuracy > 0 && progress.accuracy && *progress.accuracy >= rules.accuracy) {
    return absl::StrFormat("the validation set is predicted right to %.4f, and %.4f was asked for", *progress.accuracy,
                           rules.accuracy);
  }
  if (rules.stable_rounds > 0 && progress.stable_rounds >= rules.stable_rounds) {
    return absl::StrFormat("for %d rounds no more than a share of %g of the predictions changed",
                           progress.stable_rounds, rules.stable_share);
  }
  return std::nullopt;
}

}  // namespace fulcrum::pipeline
