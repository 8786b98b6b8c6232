#include "pipeline/experiment/report/settings_section.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pipeline/experiment/report/html_text.h"
#include "pipeline/version.h"

namespace fulcrum::pipeline {
namespace {

std::string ScaleName(select::LeverageScale scale) {
  switch (scale) {
    case select::LeverageScale::kNone:
      return "none";
    case select::LeverageScale::kMean:
      return "mean";
    case select::LeverageScale::kMax:
      return "max";
  }
  return "";
}

std::string SourceOf(const TaskSettings& task) {
  std::string source = task.data;
  if (task.generated) {
    const bool ringnorm = task.generated->problem.problem == ingest::SyntheticProblem::kRingnorm;
    source = absl::StrFormat("%s, generated (mean factor %g, seed %d)", ringnorm ? "ringnorm" : "twonorm",
                             task.generated->problem.mean_factor, task.generated->problem.seed);
  }
  if (task.imbalance) {
    absl::StrAppendFormat(&source, ", %g of class %s to 1", task.imbalance->ratio, task.imbalance->majority);
  }
  return EscapeHtml(source);
}

std::string GivenText(std::size_t given, std::size_t runs) {
  if (given == 0) return "seeded";
  return given >= runs ? absl::StrCat(runs, " given") : absl::StrCat(given, " given, ", runs - given, " seeded");
}

std::string TaskTable(const ExperimentSpec& spec, const ExperimentResult& result) {
  std::string rows = TableRow("th", {"task", "data", "rows × features", "training half", "leverage kernel", "τ", "α",
                                     "scale", "halves", "starts"});
  for (const TaskSummary& summary : result.tasks) {
    const auto task = std::ranges::find(spec.tasks, summary.name, &TaskSettings::name);
    rows.append(
        TableRow("td", {EscapeHtml(task->name), SourceOf(*task), absl::StrCat(summary.rows, " × ", summary.features),
                        absl::StrCat(summary.train_rows), kernel::DescribeKernel(task->leverage_kernel),
                        absl::StrFormat("%g", task->tau), absl::StrFormat("%g", task->alpha), ScaleName(task->scale),
                        GivenText(summary.given_halves, spec.runs), GivenText(summary.given_starts, spec.runs)}));
  }
  return absl::StrCat("<div class=\"scroll\"><table>", rows, "</table></div>\n");
}

std::string DescribeStrategy(const StrategySettings& strategy) {
  std::vector<std::string> own;
  if (strategy.tau) own.push_back(absl::StrFormat("τ %g", *strategy.tau));
  if (strategy.alpha) own.push_back(absl::StrFormat("α %g", *strategy.alpha));
  if (strategy.scale) own.push_back(absl::StrCat("scale ", ScaleName(*strategy.scale)));
  if (strategy.engine != StrategySettings().engine) own.push_back(absl::StrCat("engine ", strategy.engine));
  if (strategy.landmarks > 0) own.push_back(absl::StrCat(strategy.landmarks, " landmarks"));
  if (!strategy.refine_landmarks) own.push_back("not refined");
  if (own.empty() && strategy.name == strategy.strategy) return EscapeHtml(strategy.name);
  return EscapeHtml(
      absl::StrCat(strategy.name, " (", strategy.strategy, own.empty() ? "" : ", ", absl::StrJoin(own, ", "), ")"));
}

std::string Versions() {
  std::vector<std::string> parts{absl::StrCat("fulcrum ", ProgramVersion())};
  for (const LibraryVersion& library : LibraryVersions()) {
    parts.push_back(absl::StrCat(library.name, " ", library.version));
  }
  return EscapeHtml(absl::StrJoin(parts, " · "));
}

std::string Facts(const ExperimentSpec& spec, const ExperimentOptions& options, const ExperimentResult& result) {
  std::vector<std::string> strategies;
  for (const StrategySettings& strategy : spec.strategies) strategies.push_back(DescribeStrategy(strategy));
  const std::pair<std::string, std::string> facts[] = {
      {"strategies", absl::StrJoin(strategies, ", ")},
      {"rounds", absl::StrCat(spec.rounds, " of ", spec.batch, spec.batch == 1 ? " query" : " queries")},
      {"start", absl::StrCat(spec.start_per_class, " labels of each class")},
      {"features", "z-score with the training half’s mean and sample deviation, then rows to unit length"},
      {"classifier", absl::StrFormat("SVM, %s, C = %g", kernel::DescribeKernel(spec.svm_kernel), spec.svm_c)},
      {"bands", "95% confidence intervals of the mean over the runs (Student’s t)"},
      {"seed", absl::StrCat(spec.seed)},
      {"time", absl::StrCat(DurationText(result.seconds), " on ", options.threads, " threads",
                            result.resumed_curves > 0
                                ? absl::StrCat(", after ", result.resumed_curves, " curves of an earlier start")
                                : std::string())},
      {"versions", Versions()},
  };
  std::string html = "<dl>";
  for (const auto& [name, value] : facts) absl::StrAppend(&html, "<dt>", name, "</dt><dd>", value, "</dd>\n");
  return html + "</dl>\n";
}

}  // namespace

std::string SettingsSection(const ExperimentSpec& spec, const ExperimentOptions& options,
                            const ExperimentResult& result) {
  return Section("settings", "Settings and versions", "", TaskTable(spec, result) + Facts(spec, options, result));
}

}  // namespace fulcrum::pipeline
