#include "pipeline/experiment/experiment_spec.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "pipeline/text/spec_reader.h"
#include "stages/classify/classifier.h"
#include "stages/core/status_macros.h"
#include "stages/ingest/normalize.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/select/strategy.h"

namespace fulcrum::pipeline {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostRuns = 100'000;
constexpr std::size_t kMostRounds = 1'000'000;
constexpr std::size_t kMostRows = 10'000'000;
constexpr NumberRange kTauRange{0, 1, /*above_low=*/true};
constexpr NumberRange kAlphaRange{0, 1};

// In the order of the enumerations.
const std::vector<std::string>& ScaleNames() {
  static const auto* const names = new std::vector<std::string>{"none", "mean", "max"};
  return *names;
}

select::LeverageScale ReadScale(SpecFields& fields) {
  return static_cast<select::LeverageScale>(fields.Choice("leverage_scale", ScaleNames(), 0));
}

kernel::KernelFunction ReadKernel(SpecProblems& problems, SpecFields& parent, const std::string& name) {
  const YAML::Node node = parent.Take(name);
  if (!node.IsDefined()) return {};
  SpecFields fields(problems, node, parent.PathOf(name));
  kernel::KernelFunction kernel;
  kernel.type = static_cast<kernel::KernelType>(fields.Choice("type", {"rbf", "linear", "poly", "cosine"}, 0));
  kernel.sigma = fields.Number("sigma", 1, {0, kNoLimit, /*above_low=*/true});
  kernel.offset = fields.Number("c", 1, {0, kNoLimit});
  kernel.degree = static_cast<int>(fields.Count("degree", static_cast<std::size_t>(kernel.degree), 1, 100));
  kernel.normalize = fields.Choice("normalize", {"false", "true"}, 0) == 1;
  fields.RejectOthers();
  return kernel;
}

std::optional<GeneratedData> ReadGenerated(SpecProblems& problems, SpecFields& parent) {
  const YAML::Node node = parent.Take("generate");
  if (!node.IsDefined()) return std::nullopt;
  SpecFields fields(problems, node, parent.PathOf("generate"));
  GeneratedData data;
  const std::string problem = fields.RequiredText("problem");
  if (const auto parsed = ingest::ParseSyntheticProblem(problem); parsed.ok()) {
    data.problem.problem = *parsed;
  } else if (!problem.empty()) {
    fields.Problem("problem", std::string(parsed.status().message()));
  }
  data.rows = fields.Count("rows", 2000, 20, kMostRows);
  data.dims = fields.Count("dims", 20, 1, 100'000);
  data.problem.mean_factor =
      fields.Number("mean_factor", ingest::BreimanMeanFactor(data.problem.problem), {0, kNoLimit, /*above_low=*/true});
  data.problem.seed = fields.Count("seed", 1, 0, std::numeric_limits<std::uint32_t>::max());
  fields.RejectOthers();
  return data;
}

std::optional<ImbalanceSettings> ReadImbalance(SpecProblems& problems, SpecFields& parent) {
  const YAML::Node node = parent.Take("imbalance");
  if (!node.IsDefined()) return std::nullopt;
  SpecFields fields(problems, node, parent.PathOf("imbalance"));
  ImbalanceSettings imbalance;
  imbalance.majority = fields.RequiredText("majority");
  imbalance.ratio = fields.Number("ratio", 1, {1, 1e6});
  fields.RejectOthers();
  return imbalance;
}

/// "8/19/23"
std::optional<WtlCounts> ParseCounts(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  WtlCounts counts;
  std::size_t* const values[] = {&counts.win, &counts.tie, &counts.loss};
  if (parts.size() != std::size(values)) return std::nullopt;
  for (std::size_t i = 0; i < std::size(values); ++i) {
    std::uint32_t value = 0;
    if (!absl::SimpleAtoi(parts[i], &value)) return std::nullopt;
    *values[i] = value;
  }
  return counts;
}

void ReadPaper(SpecProblems& problems, SpecFields& task_fields, std::size_t spans, TaskSettings& task) {
  task_fields.ForEachNamed("paper", [&](const std::string& opponent, const YAML::Node& node, const std::string& path) {
    std::vector<WtlCounts>& cells = task.paper[opponent];
    if (!node.IsSequence() || node.size() != spans) {
      problems.Add(node, path, absl::StrCat("must be a list of ", spans, " counts, one a span of compare.spans"));
      return;
    }
    for (std::size_t i = 0; i < node.size(); ++i) {
      const auto counts = node[i].IsScalar() ? ParseCounts(node[i].Scalar()) : std::nullopt;
      if (!counts) problems.Add(node[i], absl::StrCat(path, "[", i, "]"), "must be win/tie/loss, such as 8/19/23");
      cells.push_back(counts.value_or(WtlCounts{}));
    }
  });
}

TaskSettings ReadTask(SpecProblems& problems, const YAML::Node& node, const std::string& path, std::size_t spans) {
  SpecFields fields(problems, node, path);
  TaskSettings task;
  task.name = fields.RequiredText("name");
  if (task.name.find_first_of("\t\n,") != std::string::npos) {
    fields.Problem("name", "has a comma, a tab or a new line in it; tables could not be read back");
  }
  task.data = fields.Text("data", "");
  task.generated = ReadGenerated(problems, fields);
  if (task.data.empty() == !task.generated) {
    fields.Problem("data", "exactly one of 'data' (a file) and 'generate' (a built-in problem) must be given");
  }
  task.positive = fields.Text("positive", "");
  task.train_splits = fields.Text("train_splits", "");
  task.starts = fields.Text("starts", "");
  if (!task.starts.empty() && task.train_splits.empty()) {
    fields.Problem("starts", "needs train_splits: a start must lie in the training half it was made for");
  }
  task.imbalance = ReadImbalance(problems, fields);
  if (task.imbalance && !task.train_splits.empty()) {
    fields.Problem("imbalance", "cannot be combined with train_splits, whose rows it would leave out");
  }
  task.leverage_given = fields.Take("leverage_kernel").IsDefined();
  task.leverage_kernel = ReadKernel(problems, fields, "leverage_kernel");
  task.tau = fields.Number("tau", 0.5, kTauRange);
  task.alpha = fields.Number("alpha", 0.5, kAlphaRange);
  task.scale = ReadScale(fields);
  ReadPaper(problems, fields, spans, task);
  fields.RejectOthers();
  return task;
}

/// On unless set to off.
bool ReadSwitch(SpecFields& fields, const std::string& name) {
  return fields.Choice(name, {"off", "on"}, 1) == 1;
}

VotingRule ReadVoting(SpecProblems& problems, SpecFields& parent) {
  VotingRule rule;
  const YAML::Node node = parent.Take("labeling");
  if (!node.IsDefined()) return rule;
  SpecFields fields(problems, node, parent.PathOf("labeling"));
  const YAML::Node overlap = fields.Take("overlap");
  const bool adaptive = overlap.IsDefined() && overlap.IsScalar() && overlap.Scalar() == "auto";
  rule.dawid_skene = fields.Choice("consensus", {"majority", "dawid-skene"}, adaptive ? 1 : 0) == 1;
  rule.overlap = adaptive ? 0 : fields.Count("overlap", 1, 1, 1000);
  rule.max_votes = fields.Count("max_votes", rule.max_votes, 1, 1000);
  rule.confidence = fields.Number("confidence", rule.confidence, {0, 1, /*above_low=*/true});
  rule.first_confidence = fields.Number("first_confidence", rule.first_confidence, {0, 1, /*above_low=*/true});
  rule.classifier_weight = fields.Number("classifier_weight", rule.classifier_weight, {0, 1});
  const std::size_t weights = fields.Choice("weights", {"off", "on", "excess"}, 1);
  rule.weights = weights > 0;
  rule.excess_weights = weights == 2;
  rule.pause_below = fields.Number("pause_below", 0, {0, 1});
  if (adaptive && !rule.dawid_skene) fields.Problem("overlap", "is auto, which needs 'consensus: dawid-skene'");
  fields.RejectOthers();
  return rule;
}

void ReadAnnotator(SpecProblems& problems, const YAML::Node& node, const std::string& path,
                   std::vector<SimulatedAnnotator>& annotators) {
  SpecFields fields(problems, node, path);
  SimulatedAnnotator annotator;
  const YAML::Node accuracy = fields.Take("accuracy");
  if (accuracy.IsDefined() && accuracy.IsSequence()) {
    annotator.accuracy.clear();
    for (const YAML::Node& value : accuracy) {
      double number = 0;
      if (!value.IsScalar() || !absl::SimpleAtod(value.Scalar(), &number) || !(number >= 0 && number <= 1)) {
        fields.Problem("accuracy", "must be a number from 0 to 1, or a list of one per class");
        break;
      }
      annotator.accuracy.push_back(number);
    }
  } else {
    annotator.accuracy = {fields.Number("accuracy", 0.8, {0, 1})};
  }
  annotator.spammer = fields.Choice("spammer", {"false", "true"}, 0) == 1;
  annotator.skip = fields.Number("skip", 0, {0, 1});
  annotator.seconds = fields.Number("seconds", 0, {0, kNoLimit});
  annotator.cost = fields.Number("cost", 0, {0, kNoLimit});
  const std::size_t count = fields.Count("count", 1, 1, 10'000);
  fields.RejectOthers();
  annotators.insert(annotators.end(), count, annotator);
}

SimulatedCosts ReadCosts(SpecProblems& problems, SpecFields& parent) {
  SimulatedCosts costs;
  const YAML::Node node = parent.Take("costs");
  if (!node.IsDefined()) return costs;
  SpecFields fields(problems, node, parent.PathOf("costs"));
  costs.low = fields.Number("low", 1, {0, kNoLimit, /*above_low=*/true});
  costs.high = fields.Number("high", 1, {0, kNoLimit, /*above_low=*/true});
  costs.budget = fields.Number("budget", 0, {0, kNoLimit, /*above_low=*/true});
  if (costs.budget <= 0) fields.Problem("budget", "is missing; say what the labels of a round may cost");
  if (costs.high < costs.low) fields.Problem("high", "is below low");
  fields.RejectOthers();
  return costs;
}

/// Explicit settings of the classifier switch tuning off. What is not given is as in `outer`.
std::optional<ClassifierSettings> ReadClassifier(SpecProblems& problems, SpecFields& fields,
                                                 const ClassifierSettings& outer) {
  bool fixed = false;
  for (const char* name : {"normalize", "classifier", "classifier_kernel", "classifier_c"}) {
    fixed = fixed || fields.Take(name).IsDefined();
  }
  const bool asked = fields.Take("tune").IsDefined();
  if (!fixed && !asked) return std::nullopt;
  ClassifierSettings settings = outer;
  settings.tune = fields.Choice("tune", {"auto", "off"}, fixed || !outer.tune ? 1 : 0) == 0;
  if (settings.tune && fixed) {
    fields.Problem("tune", "is auto, so leave normalize, classifier, classifier_kernel and classifier_c out");
  }
  settings.normalize = fields.Text("normalize", settings.normalize);
  if (const auto steps = ingest::ParseNormalization(settings.normalize); !steps.ok()) {
    fields.Problem("normalize", std::string(steps.status().message()));
  }
  settings.classifier = fields.Text("classifier", settings.classifier);
  if (const auto known = classify::FindClassifier(settings.classifier); !known.ok()) {
    fields.Problem("classifier", std::string(known.status().message()));
  }
  if (fields.Take("classifier_kernel").IsDefined()) {
    settings.kernel = ReadKernel(problems, fields, "classifier_kernel");
  }
  settings.c = fields.Number("classifier_c", settings.c, {0, kNoLimit, /*above_low=*/true});
  return settings;
}

StrategySettings ReadStrategy(SpecProblems& problems, const YAML::Node& node, const std::string& path,
                              const ClassifierSettings& classifier) {
  StrategySettings settings;
  if (node.IsScalar()) {
    settings.name = settings.strategy = node.Scalar();
  } else {
    SpecFields fields(problems, node, path);
    settings.strategy = fields.RequiredText("strategy");
    settings.name = fields.Text("name", settings.strategy);
    settings.tau = fields.OptionalNumber("tau", kTauRange);
    settings.alpha = fields.OptionalNumber("alpha", kAlphaRange);
    if (fields.Take("leverage_scale").IsDefined()) settings.scale = ReadScale(fields);
    settings.engine = fields.Text("engine", settings.engine);
    settings.landmarks = fields.Count("landmarks", 0, 0, kMostRows);
    settings.refine_landmarks = ReadSwitch(fields, "refine");
    settings.voting = ReadVoting(problems, fields);
    settings.weighs_costs = ReadSwitch(fields, "weigh_costs");
    settings.classifier = ReadClassifier(problems, fields, classifier);
    if (settings.strategy == kStreamStrategy) {
      settings.stream_share = fields.Number("share", 0, {0, 1, /*above_low=*/true});
    }
    if (const auto engine = leverage::FindEngine(settings.engine); !engine.ok()) {
      fields.Problem("engine", std::string(engine.status().message()));
    }
    fields.RejectOthers();
  }
  if (settings.strategy.empty()) return settings;
  if (settings.strategy == kStreamStrategy) {
    if (settings.stream_share <= 0) problems.Add(node, path, "a stream needs 'share', of the rows that may be taken");
  } else if (const auto known = select::MakeStrategy(settings.strategy); !known.ok()) {
    problems.Add(node, path, std::string(known.status().message()));
  }
  if (settings.name == kFullData) {
    problems.Add(node, path, absl::StrCat("'", kFullData, "' is the name of the whole training half's line"));
  }
  return settings;
}

RoundSpan ReadSpan(SpecProblems& problems, const YAML::Node& node, const std::string& path) {
  RoundSpan span;
  const bool pair = node.IsSequence() && node.size() == 2 && node[0].IsScalar() && node[1].IsScalar();
  std::uint32_t first = 0, last = 0;
  if (!pair || !absl::SimpleAtoi(node[0].Scalar(), &first) || !absl::SimpleAtoi(node[1].Scalar(), &last) || first < 1 ||
      last < first) {
    problems.Add(node, path, "must be [first, last], two rounds counted from 1");
    return span;
  }
  return {first, last};
}

ComparisonSettings ReadComparison(SpecProblems& problems, SpecFields& parent) {
  ComparisonSettings comparison;
  const YAML::Node node = parent.Take("compare");
  if (!node.IsDefined()) return comparison;
  SpecFields fields(problems, node, parent.PathOf("compare"));
  comparison.subject = fields.RequiredText("subject");
  fields.ForEach("spans", [&](const YAML::Node& span, const std::string& path) {
    comparison.spans.push_back(ReadSpan(problems, span, path));
  });
  fields.ForEachNamed("notes", [&](const std::string& key, const YAML::Node& note, const std::string& path) {
    if (!note.IsScalar()) problems.Add(note, path, "must be a text");
    comparison.notes[key] = note.IsScalar() ? note.Scalar() : "";
  });
  fields.RejectOthers();
  return comparison;
}

template <typename Item>
void RejectRepeatedNames(SpecFields& fields, const std::string& field, const std::vector<Item>& items) {
  std::set<std::string> seen;
  for (const Item& item : items) {
    if (!item.name.empty() && !seen.insert(item.name).second) {
      fields.Problem(field, absl::StrCat("the name '", item.name, "' comes twice; give each its own"));
    }
  }
}

void CheckSubject(SpecFields& fields, const ExperimentSpec& spec) {
  if (spec.comparison.subject.empty()) return;
  for (const StrategySettings& strategy : spec.strategies) {
    if (strategy.name == spec.comparison.subject) return;
  }
  fields.Problem("compare", absl::StrCat("subject '", spec.comparison.subject, "' is none of the strategies"));
}

ExperimentSpec ReadSpec(SpecProblems& problems, const YAML::Node& root) {
  SpecFields fields(problems, root, "");
  ExperimentSpec spec;
  spec.name = fields.RequiredText("name");
  spec.title = fields.Text("title", spec.name);
  spec.description = fields.Text("description", "");
  spec.runs = fields.Count("runs", 50, 1, kMostRuns);
  spec.rounds = fields.Count("rounds", 100, 1, kMostRounds);
  spec.batch = fields.Count("batch", 1, 1, kMostRounds);
  spec.start_per_class = fields.Count("start_per_class", 2, 1, 1000);
  spec.full_data = ReadSwitch(fields, "full_data");
  spec.seed = fields.Count("seed", 1, 0, std::numeric_limits<std::uint32_t>::max());
  spec.metric = static_cast<Metric>(fields.Choice("metric", {"accuracy", "f1", "macro-f1", "label-accuracy"}, 0));
  const ClassifierSettings tuned{.tune = true};
  spec.classifier = ReadClassifier(problems, fields, tuned).value_or(tuned);
  fields.ForEach("strategies", [&](const YAML::Node& node, const std::string& path) {
    spec.strategies.push_back(ReadStrategy(problems, node, path, spec.classifier));
  });
  fields.ForEach("annotators", [&](const YAML::Node& node, const std::string& path) {
    ReadAnnotator(problems, node, path, spec.annotators);
  });
  spec.costs = ReadCosts(problems, fields);
  if (spec.costs.limits() && !spec.annotators.empty()) {
    fields.Problem("costs", "cannot be combined with annotators, whose rounds buy a number of votes");
  }
  for (const StrategySettings& strategy : spec.strategies) {
    const auto known = select::MakeStrategy(strategy.strategy);
    if (!spec.costs.limits() || !strategy.weighs_costs || !known.ok() || (*known)->weighs_costs()) continue;
    fields.Problem("strategies", absl::StrCat("'", strategy.name, "' does not weigh costs; give it weigh_costs: off"));
  }
  if (spec.metric == Metric::kLabelAccuracy && spec.annotators.empty()) {
    fields.Problem("metric", "is label-accuracy, which needs annotators that make mistakes; without any all are right");
  }
  for (const StrategySettings& strategy : spec.strategies) {
    if (strategy.strategy != kStreamStrategy) continue;
    if (!ClassifierOf(spec, strategy).tune) fields.Problem("strategies", "has a stream, which needs 'tune: auto'");
  }
  if (spec.strategies.empty()) fields.Problem("strategies", "has none; name at least one");
  spec.comparison = ReadComparison(problems, fields);
  if (!spec.comparison.subject.empty() && spec.comparison.spans.empty()) {
    spec.comparison.spans.push_back({1, spec.rounds});
  }
  fields.ForEach("tasks", [&](const YAML::Node& node, const std::string& path) {
    spec.tasks.push_back(ReadTask(problems, node, path, spec.comparison.spans.size()));
  });
  if (spec.tasks.empty()) fields.Problem("tasks", "has none; name at least one");
  RejectRepeatedNames(fields, "tasks", spec.tasks);
  RejectRepeatedNames(fields, "strategies", spec.strategies);
  CheckSubject(fields, spec);
  fields.RejectOthers();
  return spec;
}

}  // namespace

const ClassifierSettings& ClassifierOf(const ExperimentSpec& spec, const StrategySettings& strategy) {
  return strategy.classifier ? *strategy.classifier : spec.classifier;
}

std::size_t CurvesOfRun(const ExperimentSpec& spec) {
  return spec.strategies.size() + (spec.full_data ? 1 : 0);
}

absl::StatusOr<ExperimentSpec> ParseExperimentSpec(const std::string& text, const std::string& path) {
  try {
    SpecProblems problems(path);
    ExperimentSpec spec = ReadSpec(problems, YAML::Load(text));
    FULCRUM_RETURN_IF_ERROR(problems.ToStatus());
    return spec;
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not valid YAML: ", error.what()));
  }
}

absl::StatusOr<ExperimentSpec> LoadExperimentSpec(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return absl::InvalidArgumentError(
        absl::StrCat("--spec: cannot read '", path, "'; name a YAML file such as experiments/quick.yaml"));
  }
  return ParseExperimentSpec(std::string(std::istreambuf_iterator<char>(stream), {}), path);
}

}  // namespace fulcrum::pipeline
