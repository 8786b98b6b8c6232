#include "pipeline/experiment/report/report_page.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/regret.h"
#include "pipeline/experiment/report/html_text.h"
#include "pipeline/experiment/report/learning_curve_chart.h"
#include "pipeline/experiment/report/queried_section.h"
#include "pipeline/experiment/report/regret_section.h"
#include "pipeline/experiment/report/report_style.h"
#include "pipeline/experiment/report/selection_time_chart.h"
#include "pipeline/experiment/report/series_colors.h"
#include "pipeline/experiment/report/settings_section.h"
#include "pipeline/experiment/report/wtl_section.h"
#include "pipeline/experiment/win_tie_loss.h"

namespace fulcrum::pipeline {
namespace {

std::string Tile(const std::string& value, const std::string& caption) {
  return absl::StrCat("<div class=\"tile\"><b>", value, "</b><span>", caption, "</span></div>\n");
}

std::string Tiles(const ExperimentSpec& spec, const ExperimentResult& result, const std::vector<WtlCell>& cells,
                  const std::vector<TaskRegret>& regrets) {
  std::size_t compared = 0, agreeing = 0;
  for (const WtlCell& cell : cells) {
    compared += cell.paper ? 1 : 0;
    agreeing += cell.paper && cell.agreement() == Agreement::kSame ? 1 : 0;
  }
  std::string html = "<div class=\"tiles\">\n";
  absl::StrAppend(&html, Tile(absl::StrCat(result.tasks.size()), "tasks"),
                  Tile(absl::StrCat(spec.runs), "runs of each"),
                  Tile(absl::StrCat(spec.rounds, " × ", spec.batch), "rounds × queries"));
  if (const auto best = SummarizeRegret(regrets); !best.empty()) {
    html.append(Tile(EscapeHtml(best.front().strategy),
                     absl::StrFormat("smallest mean regret (%.1f%%)", 100 * best.front().mean_share)));
  }
  if (compared > 0) {
    html.append(Tile(absl::StrCat(agreeing, " of ", compared), "comparisons lean as in the paper"));
  }
  return html + "</div>\n";
}

std::string Skipped(const ExperimentResult& result) {
  if (result.skipped.empty()) return "";
  std::string html = "<div class=\"notice\">Left out, because their data is not here:<ul>";
  for (const SkippedTask& task : result.skipped) {
    absl::StrAppend(&html, "<li><strong>", EscapeHtml(task.name), "</strong>: ", EscapeHtml(task.reason), "</li>");
  }
  return html + "</ul></div>\n";
}

std::string Figure(const std::string& task, const std::string& detail, const std::string& chart) {
  return absl::StrCat("<figure><figcaption><b>", EscapeHtml(task), "</b><span>", detail, "</span></figcaption>\n",
                      chart, "</figure>\n");
}

std::string CurvesSection(const ExperimentSpec& spec, const ExperimentResult& result, const SeriesColors& colors) {
  std::string figures = absl::StrCat(colors.Legend(), "<div class=\"charts\">\n");
  for (const TaskSummary& task : result.tasks) {
    const std::string detail = absl::StrCat(task.train_rows, " rows to query, ", task.test_rows, " to test");
    figures.append(Figure(task.name, detail, LearningCurveChart(result.curves, task.name, spec.metric, colors)));
  }
  return Section("curves", "Learning curves",
                 absl::StrCat("Mean ", spec.metric == Metric::kAccuracy ? "accuracy" : "F1", " on the test half over ",
                              spec.runs, " runs, with its 95% confidence band."),
                 figures + "</div>\n");
}

std::string TimesSection(const ExperimentResult& result, const SeriesColors& colors) {
  std::string figures = "<div class=\"charts\">\n";
  for (const TaskSummary& task : result.tasks) {
    figures.append(Figure(task.name, "median at the right", SelectionTimeChart(result.curves, task.name, colors)));
  }
  return Section("times", "Selection time",
                 "Box: the middle half of all rounds; whiskers: 5% to 95%. Training the classifier is not counted. "
                 "Strategies that do not look at answers choose all rounds at once; each round has its share.",
                 figures + "</div>\n");
}

}  // namespace

std::string ReportPage(const ExperimentSpec& spec, const ExperimentOptions& options, const ExperimentResult& result) {
  const SeriesColors colors(result.curves);
  const std::vector<WtlCell> cells = CompareWithSubject(spec, result.curves);
  const std::vector<TaskRegret> regrets = ComputeRegret(result.curves, spec.metric);
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", EscapeHtml(spec.title),
      "</title>\n<style>", kReportStyle, "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>", EscapeHtml(spec.title),
      "</h1>\n<p>", EscapeHtml(spec.description), "</p>\n<nav><a href=\"#curves\">Learning curves</a>",
      cells.empty() ? "" : "<a href=\"#wtl\">Wins, ties, losses</a>",
      "<a href=\"#regret\">Regret</a><a href=\"#queried\">What was queried</a><a href=\"#times\">Selection time</a>"
      "<a href=\"#settings\">Settings</a></nav>\n",
      Tiles(spec, result, cells, regrets), Skipped(result), "</header>\n", CurvesSection(spec, result, colors),
      WtlSection(spec, cells), RegretSection(regrets, colors), QueriedSection(spec, result.curves, colors),
      TimesSection(result, colors), SettingsSection(spec, options, result), "</main>\n<script>", kReportScript,
      "</script>\n</body>\n</html>\n");
}

}  // namespace fulcrum::pipeline
