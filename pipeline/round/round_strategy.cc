#include <algorithm>
#include <memory>
#include <numeric>

#include "absl/strings/str_format.h"
#include "pipeline/round/memory_budget.h"
#include "pipeline/round/round_stages.h"
#include "stages/core/status_macros.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {
namespace {

// If so many labels name one class, covering the pool has not found the others: a class may lie around another one, so
// that the rows in the middle cover both.
constexpr std::size_t kLabelsOfOneClass = 8;

}  // namespace

std::vector<std::size_t> CountLabels(std::span<const ClassIndex> labels, std::size_t classes) {
  std::vector<std::size_t> counts(classes, 0);
  for (const ClassIndex label : labels) {
    if (label != kUnlabeled && static_cast<std::size_t>(label) < classes) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

absl::StatusOr<RoundStrategy> ChooseStrategy(const RoundSpec& spec, std::span<const std::size_t> labels_of_class,
                                             bool has_predictions) {
  FULCRUM_ASSIGN_OR_RETURN(const std::unique_ptr<select::Strategy> strategy, select::MakeStrategy(spec.strategy));
  const RoundStrategy as_asked{.name = spec.strategy, .half_by_chance = false};
  if (!strategy->needs_labels() || has_predictions) return as_asked;
  const std::size_t all = std::accumulate(labels_of_class.begin(), labels_of_class.end(), std::size_t{0});
  const std::size_t of_others = all - (all > 0 ? std::ranges::max(labels_of_class) : 0);
  const bool many = all >= kLabelsOfOneClass;
  if (of_others == 0) return RoundStrategy{.name = many ? "random" : select::kStrategyWithoutLabels};
  // A single label of another class may be an error. Strategies that were asked for by name do what they are known for.
  if (of_others > 1 || !many || spec.strategy != select::kDefaultStrategy) return as_asked;
  return RoundStrategy{.name = spec.strategy, .half_by_chance = true};
}

std::size_t PicksOfStrategy(std::size_t batch, std::size_t queries_so_far) {
  return (batch + queries_so_far % 2) / 2;
}

absl::Status CheckGivenClasses(const std::string& strategy, const select::Requirements& needs) {
  if (needs.given_predictions_suffice) return absl::OkStatus();
  if (!needs.confidence && !needs.probabilities && !needs.margin) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "strategy '%s' needs the confidence of a classifier, and given classes have none. Give the probability of each "
      "class (one column per class), or give no predictions, so that Fulcrum trains its own classifier, or choose a "
      "strategy such as dbalevs.",
      strategy));
}

absl::Status CheckClassPairs(std::span<const std::size_t> labels_of_class, std::size_t rows, std::size_t memory_bytes) {
  const std::size_t labeled = std::accumulate(labels_of_class.begin(), labels_of_class.end(), std::size_t{0});
  const auto classes =
      static_cast<std::size_t>(std::ranges::count_if(labels_of_class, [](std::size_t count) { return count > 0; }));
  const std::size_t pairs = classes * (classes - std::min<std::size_t>(classes, 1)) / 2;
  const std::size_t needed = sizeof(double) * pairs * (rows + labeled);
  const std::size_t most = memory_bytes > 0 ? memory_bytes : UsableMemoryBytes();
  if (needed <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the classifier compares %d classes in pairs, which takes %d MiB for %d rows, and %d MiB may be used; allow more "
      "memory, or label with fewer classes",
      classes, needed >> 20, rows, most >> 20));
}

}  // namespace fulcrum::pipeline
