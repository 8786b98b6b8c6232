#include "pipeline/campaign/campaign_plan.h"

#include <google/protobuf/util/time_util.h>

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/memory_allowance.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"
#include "stages/select/strategy_registry.h"

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

namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kLongestName = 63;
constexpr std::int64_t kLargestBatch = 1'000'000;
constexpr std::int64_t kLeastMemoryMib = MemoryBudgetShare::kLeastRoundBytes >> 20;
constexpr std::int64_t kMostMemoryMib = std::int64_t{1} << 30;

/// What is wrong, a line a field.
class Problems {
 public:
  void Add(const std::string& path, const std::string& what) { problems_.push_back({path, what}); }
  void Add(const std::string& path, const absl::Status& status) {
    if (!status.ok()) Add(path, std::string(status.message()));
  }
  absl::Status ToStatus() const {
    if (problems_.empty()) return absl::OkStatus();
    std::string message = "the campaign cannot be run as it is specified:";
    for (const FieldProblem& problem : problems_) absl::StrAppend(&message, "\n  ", problem.field, ": ", problem.what);
    return WithFieldProblems(absl::InvalidArgumentError(message), problems_);
  }

 private:
  std::vector<FieldProblem> problems_;
};

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

kernel::KernelFunction KernelOf(const v1::KernelSpec& spec) {
  kernel::KernelFunction function;
  switch (spec.type()) {
    case v1::KernelSpec::TYPE_LINEAR:
      function.type = kernel::KernelType::kLinear;
      break;
    case v1::KernelSpec::TYPE_POLY:
      function.type = kernel::KernelType::kPoly;
      break;
    case v1::KernelSpec::TYPE_COSINE:
      function.type = kernel::KernelType::kCosine;
      break;
    default:
      break;
  }
  if (spec.has_sigma()) function.sigma = spec.sigma();
  if (spec.has_offset()) function.offset = spec.offset();
  function.degree = spec.has_degree() ? spec.degree() : 4;
  return function;
}

void PlanPool(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  plan.name = spec.name();
  problems.Add("name", CheckCampaignName(spec.name()));
  plan.sources.assign(spec.pool().sources().begin(), spec.pool().sources().end());
  if (plan.sources.empty()) problems.Add("pool.sources", "there is none; name a file, a folder or a glob");
  plan.watch = spec.pool().watch();
  plan.id_column = spec.pool().id_column();
  plan.label_column = spec.pool().label_column();
  plan.payload_column = spec.pool().payload_column();
  plan.cost_column = spec.pool().cost_column();
  plan.question = spec.question();
  plan.classes.assign(spec.classes().begin(), spec.classes().end());
  if (plan.classes.size() < 2) problems.Add("classes", "there must be at least two answers to choose from");
  if (std::set<std::string>(plan.classes.begin(), plan.classes.end()).size() != plan.classes.size()) {
    problems.Add("classes", "one of them is there twice");
  }
  for (const std::string& name : plan.classes) {
    if (name.empty()) problems.Add("classes", "one of them is empty");
  }
}

void PlanNormalization(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  const auto& steps = spec.features().normalize();
  auto parsed = ingest::ParseNormalization(steps.empty() ? "zscore,unit" : absl::StrJoin(steps, ","));
  problems.Add("features.normalize", parsed.status());
  if (parsed.ok()) plan.normalize = *std::move(parsed);
}

void PlanClassifier(const v1::ClassifierSpec& spec, CampaignPlan& plan, Problems& problems) {
  plan.round.svm.kernel = KernelOf(spec.kernel());
  plan.round.svm.tolerance = kCampaignSvmTolerance;
  problems.Add("classifier.kernel", kernel::ValidateKernel(plan.round.svm.kernel));
  if (spec.has_c()) plan.round.svm.c = spec.c();
  if (!(plan.round.svm.c > 0))
    problems.Add("classifier.c", absl::StrCat("is ", plan.round.svm.c, "; it must be above 0"));
  plan.full_every = spec.full_every();
  if (plan.full_every < 0) problems.Add("classifier.full_every", "is negative; 0 means never");
}

void PlanSelection(const v1::SelectionSpec& spec, CampaignPlan& plan, Problems& problems) {
  RoundSpec& round = plan.round;
  round.strategy = spec.strategy().empty() ? select::kDefaultStrategy : spec.strategy();
  problems.Add("selection.strategy", select::MakeStrategy(round.strategy).status());
  const std::int64_t batch = spec.has_batch() ? spec.batch() : 10;
  if (batch < 1 || batch > kLargestBatch) {
    problems.Add("selection.batch", absl::StrCat("is ", batch, "; it must lie in 1 to ", kLargestBatch));
  } else {
    round.batch = static_cast<std::size_t>(batch);
  }
  round.leverage_kernel = KernelOf(spec.kernel());
  problems.Add("selection.kernel", kernel::ValidateKernel(round.leverage_kernel));
  if (spec.has_tau()) round.tau = spec.tau();
  if (!(round.tau > 0 && round.tau <= 1))
    problems.Add("selection.tau", absl::StrCat("is ", round.tau, "; it must lie in (0, 1]"));
  if (spec.has_alpha()) round.alpha = spec.alpha();
  if (!(round.alpha >= 0 && round.alpha <= 1))
    problems.Add("selection.alpha", absl::StrCat("is ", round.alpha, "; it must lie in [0, 1]"));
  const auto scale = select::ParseLeverageScale(spec.leverage_scale().empty() ? "none" : spec.leverage_scale());
  problems.Add("selection.leverage_scale", scale.status());
  if (scale.ok()) round.leverage_scale = *scale;
  if (!spec.engine().empty()) round.engine = spec.engine();
  if (!spec.has_memory_mib()) return;
  if (spec.memory_mib() < kLeastMemoryMib || spec.memory_mib() > kMostMemoryMib) {
    problems.Add("selection.memory_mib",
                 absl::StrCat("is ", spec.memory_mib(), "; it must lie in ", kLeastMemoryMib, " to ", kMostMemoryMib));
  } else {
    round.memory_bytes = static_cast<std::size_t>(spec.memory_mib()) << 20;
  }
}

void PlanLabeling(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  storage::CampaignSettings& settings = plan.settings;
  const v1::LabelingSpec& labeling = spec.labeling();
  if (labeling.has_overlap()) settings.overlap = labeling.overlap();
  if (labeling.has_margin()) settings.margin = labeling.margin();
  settings.most_votes = labeling.has_most_votes() ? labeling.most_votes() : settings.overlap + 2;
  if (labeling.has_lease_time()) {
    settings.lease_time = std::chrono::milliseconds(TimeUtil::DurationToMilliseconds(labeling.lease_time()));
  }
  if (labeling.has_most_attempts()) settings.most_attempts = labeling.most_attempts();
  const v1::AdvanceSpec& advance = spec.advance();
  settings.policy.soft_time = std::chrono::milliseconds(TimeUtil::DurationToMilliseconds(advance.soft_time()));
  settings.policy.hard_time = std::chrono::milliseconds(TimeUtil::DurationToMilliseconds(advance.hard_time()));
  if (advance.has_soft_share()) settings.policy.soft_share = advance.soft_share();
  if (advance.has_hard_minimum()) settings.policy.hard_minimum = advance.hard_minimum();
  problems.Add("labeling and advance", storage::CheckSettings(settings));
}

void PlanStop(const v1::StopSpec& spec, CampaignPlan& plan, Problems& problems) {
  plan.stop.labels = spec.labels();
  plan.stop.rounds = spec.rounds();
  plan.stop.accuracy = spec.accuracy().target();
  plan.stop.stable_rounds = spec.stable().rounds();
  if (spec.stable().has_share()) plan.stop.stable_share = spec.stable().share();
  plan.stop.plateau_rounds = spec.plateau().rounds();
  if (spec.plateau().has_improvement()) plan.stop.plateau_improvement = spec.plateau().improvement();
  plan.validation_sources.assign(spec.accuracy().sources().begin(), spec.accuracy().sources().end());
  if (plan.stop.labels < 0) problems.Add("stop.labels", "is negative");
  if (plan.stop.rounds < 0) problems.Add("stop.rounds", "is negative");
  if (plan.stop.stable_rounds < 0) problems.Add("stop.stable.rounds", "is negative");
  if (!(plan.stop.stable_share >= 0 && plan.stop.stable_share < 1)) {
    problems.Add("stop.stable.share", absl::StrCat("is ", plan.stop.stable_share, "; it must lie in [0, 1)"));
  }
  if (plan.stop.plateau_rounds < 0) problems.Add("stop.plateau.rounds", "is negative");
  if (!(plan.stop.plateau_improvement >= 0 && plan.stop.plateau_improvement < 1)) {
    problems.Add("stop.plateau.improvement",
                 absl::StrCat("is ", plan.stop.plateau_improvement, "; it must lie in [0, 1)"));
  }
  if (!(plan.stop.accuracy >= 0 && plan.stop.accuracy <= 1)) {
    problems.Add("stop.accuracy.target", absl::StrCat("is ", plan.stop.accuracy, "; it must lie in [0, 1]"));
  }
  if (spec.has_accuracy() && plan.validation_sources.empty()) {
    problems.Add("stop.accuracy.sources", "there is none; name a file with features and labels to measure on");
  }
  plan.stop.cost = spec.cost();
  if (plan.stop.cost < 0) problems.Add("stop.cost", "is negative");
  plan.settings.label_budget = plan.stop.labels;
  plan.settings.cost_budget = plan.stop.cost;
}

}  // namespace

absl::Status CheckCampaignName(const std::string& name) {
  bool good = !name.empty() && name.size() <= kLongestName && name[0] != '-' && name[0] != '_';
  for (const char c : name) good = good && IsNameCharacter(c);
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", name.substr(0, kLongestName),
                   "' cannot be the name of a campaign; take small letters, digits, '-' and '_', "
                   "beginning with a letter or digit, at most ",
                   kLongestName, " of them"));
}

absl::StatusOr<CampaignPlan> PlanCampaign(const v1::CampaignSpec& spec) {
  CampaignPlan plan;
  Problems problems;
  PlanPool(spec, plan, problems);
  PlanNormalization(spec, plan, problems);
  PlanClassifier(spec.classifier(), plan, problems);
  PlanSelection(spec.selection(), plan, problems);
  PlanLabeling(spec, plan, problems);
  PlanStop(spec.stop(), plan, problems);
  plan.round.seed = spec.seed() == 0 ? 1 : spec.seed();
  FULCRUM_RETURN_IF_ERROR(problems.ToStatus());
  FULCRUM_RETURN_IF_ERROR(ValidateRoundSpec(plan.round));
  plan.settings.specification = StoredText(spec);
  return plan;
}

absl::StatusOr<v1::CampaignSpec> ParseSpecificationText(const std::string& text) {
  v1::CampaignSpec spec;
  FULCRUM_RETURN_IF_ERROR(ParseStoredText(text, spec));
  return spec;
}

}  // namespace fulcrum::pipeline
