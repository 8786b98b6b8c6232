#include "pipeline/campaign/campaign_plan.h"

#include <google/protobuf/field_mask.pb.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "fulcrum/v1/campaign_spec.pb.h"
#include "pipeline/campaign/field_limits.h"
#include "pipeline/campaign/stored_text.h"
#include "pipeline/text/status.h"
#include "stages/core/status_macros.h"
#include "stages/select/strategy.h"
#include "storage/rules/label_rules.h"

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
    return absl::StrFormat("label budget reached (%d of %d)", progress.labels, rules.labels);
  }
  if (rules.cost > 0 && progress.cost >= rules.cost) {
    return absl::StrFormat("cost budget reached (%g of %g)", progress.cost, rules.cost);
  }
  if (rules.rounds > 0 && progress.rounds >= rules.rounds) {
    return absl::StrFormat("round limit reached (%d of %d)", progress.rounds, rules.rounds);
  }
  if (progress.models.empty()) return std::nullopt;
  const std::optional<double> accuracy = progress.models.back().accuracy;
  if (rules.accuracy > 0 && accuracy && *accuracy >= rules.accuracy) {
    return absl::StrFormat("validation accuracy %.4f reached the target %.4f", *accuracy, rules.accuracy);
  }
  const std::int64_t stable = StableRounds(progress.models, rules.stable_share);
  if (rules.stable_rounds > 0 && stable >= rules.stable_rounds) {
    return absl::StrFormat("at most %g of predictions changed for %d rounds", rules.stable_share, stable);
  }
  const std::int64_t plateau = PlateauRounds(progress.models, rules.plateau_improvement);
  if (rules.plateau_rounds > 0 && plateau >= rules.plateau_rounds) {
    return absl::StrFormat("for %d rounds %s did not improve by more than %g", plateau,
                           accuracy ? "the accuracy" : "the share of predictions that stay", rules.plateau_improvement);
  }
  return std::nullopt;
}

namespace {

constexpr std::size_t kLongestName = 63;
// Each task of a round has a lease, which is in memory while the round is open.
constexpr std::int64_t kMostTasksPerRound = 1'000'000;

/// What is wrong, one line per field.
class Problems {
 public:
  void Add(const std::string& path, const std::string& what) { problems_.push_back({path, what}); }
  void Add(const std::string& path, const absl::Status& status) {
    if (!status.ok()) Add(path, std::string(status.message()));
  }
  bool empty() const { return problems_.empty(); }
  absl::Status ToStatus() const {
    if (problems_.empty()) return absl::OkStatus();
    std::string message = "the campaign cannot be run as it is specified:";
    for (const FieldProblem& problem : problems_) absl::StrAppend(&message, "\n  ", problem.field, ": ", problem.what);
    return WithFieldProblems(absl::InvalidArgumentError(message), problems_);
  }

 private:
  std::vector<FieldProblem> problems_;
};

/// A number that is out of range is reported by its limit; until then it must not overflow.
std::chrono::milliseconds ToMilliseconds(const google::protobuf::Duration& duration) {
  constexpr std::int64_t kLargestSeconds = 1'000'000'000'000;
  const std::int64_t seconds = std::clamp<std::int64_t>(duration.seconds(), -kLargestSeconds, kLargestSeconds);
  return std::chrono::seconds(seconds) + std::chrono::milliseconds(duration.nanos() / 1'000'000);
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// An enumeration value as it is called everywhere else: "ENGINE_DENSE" is "dense".
std::string NameOf(absl::string_view prefix, absl::string_view value) {
  return absl::AsciiStrToLower(absl::StripPrefix(value, prefix));
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
  if (spec.has_degree()) function.degree = spec.degree();
  return function;
}

constexpr std::size_t kMostClasses = 1000;
constexpr std::size_t kMostTextBytes = std::size_t{64} << 10;

void PlanPool(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  plan.name = spec.name();
  problems.Add("name", CheckCampaignName(spec.name()));
  plan.sources.assign(spec.pool().sources().begin(), spec.pool().sources().end());
  if (plan.sources.empty()) problems.Add("pool.sources", "is empty; name a file, a folder or a glob");
  plan.watch = spec.pool().watch();
  plan.id_column = spec.pool().id_column();
  plan.label_column = spec.pool().label_column();
  plan.payload_column = spec.pool().payload_column();
  plan.cost_column = spec.pool().cost_column();
  plan.ignored_columns.assign(spec.pool().ignored_columns().begin(), spec.pool().ignored_columns().end());
  plan.question = spec.question();
  plan.classes.assign(spec.classes().begin(), spec.classes().end());
  if (plan.classes.size() < 2) problems.Add("classes", "there must be at least two answers to choose from");
  if (std::set<std::string>(plan.classes.begin(), plan.classes.end()).size() != plan.classes.size()) {
    problems.Add("classes", "a class is listed twice");
  }
  std::size_t bytes = 0;
  for (const std::string& name : plan.classes) {
    if (name.empty()) problems.Add("classes", "one of them is empty");
    bytes += name.size();
  }
  if (plan.classes.size() > kMostClasses) {
    problems.Add("classes",
                 absl::StrCat("there are ", plan.classes.size(), "; at most ", kMostClasses, " are allowed"));
  }
  // Both are part of every task.
  if (bytes > kMostTextBytes) {
    problems.Add("classes", absl::StrCat("they have ", bytes, " bytes together; at most ", kMostTextBytes));
  }
  if (plan.question.size() > kMostTextBytes) {
    problems.Add("question", absl::StrCat("it has ", plan.question.size(), " bytes; at most ", kMostTextBytes));
  }
}

/// Explicit settings of the classifier switch tuning off.
bool PlanTuning(const v1::CampaignSpec& spec, Problems& problems) {
  const v1::Tuning tune = spec.classifier().tune();
  const bool given =
      spec.classifier().has_kernel() || spec.classifier().has_c() || spec.features().normalize_size() > 0;
  if (tune == v1::TUNING_AUTO && given) {
    problems.Add("classifier.tune", "is auto, so leave classifier.kernel, classifier.c and features.normalize out");
  }
  return tune != v1::TUNING_OFF && !given;
}

void PlanNormalization(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  plan.round.tune = PlanTuning(spec, problems);
  plan.round.leverage_follows = !spec.selection().has_kernel();
  if (plan.round.tune) return;  // normalised as is chosen in each round
  std::vector<std::string> steps;
  for (const int step : spec.features().normalize()) {
    steps.push_back(NameOf("NORMALIZATION_", v1::Normalization_Name(static_cast<v1::Normalization>(step))));
  }
  auto parsed = ingest::ParseNormalization(steps.empty() ? "zscore,unit" : absl::StrJoin(steps, ","));
  problems.Add("features.normalize", parsed.status());
  if (parsed.ok()) plan.normalize = *std::move(parsed);
  if (std::ranges::find(plan.normalize, ingest::NormalizeStep::kOneHot) != plan.normalize.end()) {
    problems.Add("features.normalize", "has onehot, which only a tuned classifier can choose; leave it out");
  }
}

void PlanClassWeights(const v1::ClassifierSpec& spec, CampaignPlan& plan, Problems& problems) {
  if (spec.class_weights().empty()) return;
  std::vector<double>& weights = plan.round.svm.class_weights;
  weights.assign(plan.classes.size(), 1);
  std::set<std::string> seen;
  for (const v1::ClassWeight& entry : spec.class_weights()) {
    const auto found = std::find(plan.classes.begin(), plan.classes.end(), entry.name());
    if (found == plan.classes.end()) {
      problems.Add("classifier.class_weights",
                   absl::StrCat("'", entry.name().substr(0, 100), "' is not one of the classes"));
    } else if (!seen.insert(entry.name()).second) {
      problems.Add("classifier.class_weights", absl::StrCat("the class '", entry.name(), "' is listed twice"));
    } else {
      weights[static_cast<std::size_t>(found - plan.classes.begin())] = entry.weight();
    }
  }
}

void PlanClassifier(const v1::ClassifierSpec& spec, CampaignPlan& plan, Problems& problems) {
  plan.round.svm.kernel = KernelOf(spec.kernel());
  plan.round.svm.tolerance = kCampaignSvmTolerance;
  if (spec.has_c()) plan.round.svm.c = spec.c();
  plan.full_every = spec.full_every();
  PlanClassWeights(spec, plan, problems);
}

void PlanSelection(const v1::SelectionSpec& spec, CampaignPlan& plan, Problems& problems) {
  RoundSpec& round = plan.round;
  round.strategy = spec.strategy().empty() ? select::kDefaultStrategy : spec.strategy();
  problems.Add("selection.strategy", select::MakeStrategy(round.strategy).status());
  if (spec.has_batch()) round.batch = static_cast<std::size_t>(std::max(spec.batch(), 1));
  round.leverage_kernel = KernelOf(spec.kernel());
  if (spec.has_tau()) round.tau = spec.tau();
  if (spec.has_alpha()) round.alpha = spec.alpha();
  if (spec.leverage_scale() != v1::LEVERAGE_SCALE_UNSPECIFIED) {
    const auto scale =
        select::ParseLeverageScale(NameOf("LEVERAGE_SCALE_", v1::LeverageScale_Name(spec.leverage_scale())));
    problems.Add("selection.leverage_scale", scale.status());
    if (scale.ok()) round.leverage_scale = *scale;
  }
  if (spec.engine() != v1::ENGINE_UNSPECIFIED) round.engine = NameOf("ENGINE_", v1::Engine_Name(spec.engine()));
  round.cost_budget = spec.cost_budget();
  if (spec.has_memory_mib()) round.memory_bytes = static_cast<std::size_t>(spec.memory_mib()) << 20;
  if (spec.has_stream()) {
    plan.stream =
        PlanStream(spec.stream(), [&](const std::string& path, const std::string& what) { problems.Add(path, what); });
  }
}

void PlanExternal(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  if (!spec.classifier().has_external()) return;
  const v1::ExternalModelSpec& external = spec.classifier().external();
  ExternalModel& model = plan.external.emplace();
  if (external.has_timeout()) model.timeout = ToMilliseconds(external.timeout());
  if (external.has_lease_time()) model.lease_time = ToMilliseconds(external.lease_time());
  model.builtin_fallback = external.fallback() == v1::ExternalModelSpec::FALLBACK_BUILTIN;
  if (select::MakeStrategy(plan.round.strategy).ok()) {
    problems.Add("selection.strategy", CheckUsesPredictions(plan.round.strategy, /*may_ignore=*/true));
  }
  if (spec.stop().has_accuracy()) {
    problems.Add("stop.accuracy",
                 "cannot be measured with classifier.external, whose model predicts the pool only; use stop.labels, "
                 "stop.rounds, stop.stable or stop.plateau");
  }
}

void PlanCluster(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  if (!spec.selection().has_cluster()) return;
  const v1::ClusterSpec& cluster = spec.selection().cluster();
  plan.cluster = ClusterPlan{.launcher = cluster.launcher()};
  if (cluster.has_timeout()) plan.cluster->timeout = ToMilliseconds(cluster.timeout());
  if (cluster.launcher().empty()) {
    problems.Add("selection.cluster.launcher", "is missing; name a launcher of the server's configuration");
  }
  if (plan.external) problems.Add("selection.cluster", "is for the built-in classifier; leave classifier.external out");
  if (spec.selection().has_cost_budget()) {
    problems.Add("selection.cluster", "does not weigh costs; leave selection.cost_budget out");
  }
}

constexpr int kDefaultMaxVotes = 5;
constexpr double kDefaultConfidence = 0.95;
constexpr double kDefaultGoldRate = 0.1;
constexpr double kDefaultClassifierWeight = 0.5;

void PlanConsensus(const v1::CampaignSpec& spec, bool adaptive, storage::CampaignSettings& settings,
                   Problems& problems) {
  const v1::LabelingSpec& labeling = spec.labeling();
  const bool crowd = labeling.consensus() == v1::CONSENSUS_DAWID_SKENE ||
                     (adaptive && labeling.consensus() == v1::CONSENSUS_UNSPECIFIED);
  if (labeling.has_gold()) {
    settings.gold_rate = labeling.gold().has_rate() ? labeling.gold().rate() : kDefaultGoldRate;
  }
  if (!crowd) {
    if (adaptive) problems.Add("labeling.overlap", "is auto, which needs 'consensus: dawid_skene'");
    for (const auto& [given, field] : {std::pair(labeling.has_max_votes(), "labeling.max_votes"),
                                       {labeling.has_confidence(), "labeling.confidence"},
                                       {labeling.has_first_confidence(), "labeling.first_confidence"},
                                       {labeling.has_classifier_weight(), "labeling.classifier_weight"},
                                       {labeling.has_quality(), "labeling.quality"}}) {
      if (given) problems.Add(field, "needs 'consensus: dawid_skene'; a majority uses overlap, margin and most_votes");
    }
    return;
  }
  settings.consensus = storage::CampaignSettings::Consensus::kDawidSkene;
  settings.classes.assign(spec.classes().begin(), spec.classes().end());
  if (labeling.has_margin()) problems.Add("labeling.margin", "is for the consensus by majority; leave it out");
  if (adaptive) {
    settings.most_votes = labeling.has_max_votes() ? labeling.max_votes() : kDefaultMaxVotes;
    settings.confidence = labeling.has_confidence() ? labeling.confidence() : kDefaultConfidence;
    settings.first_confidence = labeling.first_confidence();
    if (labeling.has_most_votes()) problems.Add("labeling.most_votes", "with overlap auto the limit is max_votes");
  } else if (labeling.has_max_votes() || labeling.has_confidence() || labeling.has_first_confidence()) {
    problems.Add("labeling.overlap",
                 "is a number, so max_votes, confidence and first_confidence have no effect; set it to auto");
  }
  const bool external = spec.classifier().has_external();
  settings.classifier_weight = adaptive && !external ? kDefaultClassifierWeight : 0;
  if (labeling.has_classifier_weight()) settings.classifier_weight = labeling.classifier_weight();
  if (external && settings.classifier_weight > 0) {
    problems.Add("labeling.classifier_weight", "is for the built-in classifier; leave it out with classifier.external");
  }
  settings.pause_below = labeling.quality().pause_below();
  if (labeling.quality().has_min_votes()) settings.pause_votes = labeling.quality().min_votes();
}

void PlanLabeling(const v1::CampaignSpec& spec, CampaignPlan& plan, Problems& problems) {
  storage::CampaignSettings& settings = plan.settings;
  const v1::LabelingSpec& labeling = spec.labeling();
  const bool adaptive = labeling.has_overlap() && labeling.overlap() == 0;
  if (labeling.has_overlap() && !adaptive) settings.overlap = labeling.overlap();
  if (labeling.has_margin()) settings.margin = labeling.margin();
  settings.most_votes = labeling.has_most_votes() ? labeling.most_votes() : settings.overlap + 2;
  PlanConsensus(spec, adaptive, settings, problems);
  if (labeling.has_lease_time()) {
    settings.lease_time = ToMilliseconds(labeling.lease_time());
  }
  for (const v1::AnnotatorTerms& terms : labeling.annotators()) {
    problems.Add("labeling.annotators", storage::CheckText("name of an annotator", terms.name()));
    const storage::AnnotatorTerms own = {terms.cost(), terms.budget(), terms.hourly_cost()};
    if (!settings.annotators.emplace(terms.name(), own).second) {
      problems.Add("labeling.annotators", absl::StrCat("'", terms.name(), "' is listed twice"));
    }
  }
  if (labeling.has_most_attempts()) settings.most_attempts = labeling.most_attempts();
  if (labeling.has_dispute_time()) settings.dispute_time = ToMilliseconds(labeling.dispute_time());
  const v1::AdvanceSpec& advance = spec.advance();
  settings.policy.soft_time = ToMilliseconds(advance.soft_time());
  settings.policy.hard_time = ToMilliseconds(advance.hard_time());
  settings.policy.learn_soft = !advance.has_soft_time();
  settings.policy.learn_hard = !advance.has_hard_time();
  if (advance.has_soft_share()) settings.policy.soft_share = advance.soft_share();
  if (advance.has_hard_minimum()) settings.policy.hard_minimum = advance.hard_minimum();
  // Rows are compared with the last one only; a reader may be a round late.
  plan.retention = {
      .scores = spec.retention().scores(), .models = spec.retention().models(), .streams = plan.stream ? 2 : 0};
  // Otherwise the same numbers would be reported twice.
  if (!problems.empty()) return;
  problems.Add("labeling and advance", storage::CheckSettings(settings));
  const auto batch = static_cast<std::int64_t>(plan.round.batch);
  if (batch * settings.overlap > kMostTasksPerRound) {
    problems.Add("labeling.overlap", absl::StrCat("is ", settings.overlap, " and selection.batch is ", batch, ": ",
                                                  batch * settings.overlap, " tasks per round; at most ",
                                                  kMostTasksPerRound, " are possible"));
  }
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
  if (spec.has_accuracy() && plan.validation_sources.empty()) {
    problems.Add("stop.accuracy.sources", "is empty; name a file with features and labels to measure on");
  }
  plan.stop.cost = spec.cost();
  plan.settings.label_budget = plan.stop.labels;
  plan.settings.cost_budget = plan.stop.cost;
}

}  // namespace

absl::Status CheckCampaignName(const std::string& name) {
  bool good = !name.empty() && name.size() <= kLongestName && name[0] != '-' && name[0] != '_';
  for (const char c : name) good = good && IsNameCharacter(c);
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("invalid campaign name '", name.substr(0, kLongestName),
                   "': use lowercase letters, digits, '-' and '_', starting with a letter or digit, at most ",
                   kLongestName, " characters"));
}

absl::StatusOr<CampaignPlan> PlanCampaign(const v1::CampaignSpec& spec) {
  CampaignPlan plan;
  Problems problems;
  for (const FieldProblem& problem : FindNumbersOutOfRange(spec)) problems.Add(problem.field, problem.what);
  PlanPool(spec, plan, problems);
  PlanNormalization(spec, plan, problems);
  PlanClassifier(spec.classifier(), plan, problems);
  PlanSelection(spec.selection(), plan, problems);
  PlanExternal(spec, plan, problems);
  PlanCluster(spec, plan, problems);
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
