#include "stages/ingest/synthetic.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "stages/core/random.h"

namespace fulcrum::ingest {
namespace {

struct Normal {
  double mean = 0;
  double deviation = 1;
};

Normal DistributionOf(SyntheticProblem problem, bool first_class, double a) {
  if (problem == SyntheticProblem::kTwonorm) return {first_class ? a : -a, 1};
  return first_class ? Normal{0, 2} : Normal{a, 1};
}

}  // namespace

absl::StatusOr<SyntheticProblem> ParseSyntheticProblem(absl::string_view name) {
  if (name == "twonorm") return SyntheticProblem::kTwonorm;
  if (name == "ringnorm") return SyntheticProblem::kRingnorm;
  return absl::InvalidArgumentError(absl::StrCat("unknown problem '", name, "'; it must be ringnorm or twonorm"));
}

double BreimanMeanFactor(SyntheticProblem problem) {
  return problem == SyntheticProblem::kTwonorm ? 2 : 1;
}

int GenerateRow(const SyntheticSpec& spec, std::uint64_t row, std::span<double> features) {
  Random random = Random::Fork(spec.seed, row);
  const bool first_class = random.Uniform() < 0.5;
  const double a = spec.mean_factor / std::sqrt(static_cast<double>(features.size()));
  const auto [mean, deviation] = DistributionOf(spec.problem, first_class, a);
  for (double& value : features) value = mean + deviation * random.Normal();
  return first_class ? 1 : -1;
}

}  // namespace fulcrum::ingest
