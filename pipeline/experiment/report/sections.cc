#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/report/report_page.h"
#include "pipeline/text/version.h"

namespace fulcrum::pipeline {
namespace {

std::string CountsText(const WtlCounts& counts) {
  return absl::StrCat(counts.win, "/", counts.tie, "/", counts.loss);
}

std::string CountsBar(const WtlCounts& counts) {
  const auto total = static_cast<double>(std::max<std::size_t>(1, counts.win + counts.tie + counts.loss));
  const auto part = [&](const char* css_class, std::size_t count) {
    return count == 0 ? std::string()
                      : absl::StrFormat("<i class=\"%s\" style=\"width:%.2f%%\"></i>", css_class,
                                        100 * static_cast<double>(count) / total);
  };
  return absl::StrCat("<span class=\"bar\">", part("win", counts.win), part("tie", counts.tie),
                      part("loss", counts.loss), "</span>");
}

std::string SpanText(const RoundSpan& span) {
  return absl::StrCat("rounds ", span.first, "–", span.last);
}

std::string CountsLine(const char* css_class, const WtlCounts& counts, const std::string& remark) {
  return absl::StrCat("<div class=\"", css_class, "\"><b>", CountsText(counts), "</b>", CountsBar(counts), remark,
                      "</div>");
}

std::string CellHtml(const WtlCell& cell) {
  std::string html =
      absl::StrCat("<div class=\"wtl\"><small>", SpanText(cell.span), "</small>", CountsLine("ours", cell.counts, ""));
  if (cell.paper) {
    const Agreement agreement = cell.agreement();
    const char* mark = agreement == Agreement::kSame        ? ""
                       : agreement == Agreement::kUndecided ? " <em title=\"one of the two does not lean\">≈</em>"
                                                            : " <em title=\"leans the other way\">≠</em>";
    html.append(CountsLine("paper", *cell.paper, absl::StrCat("<span>paper", mark, "</span>")));
  }
  return html + "</div>";
}

std::vector<std::string> InOrder(const std::vector<WtlCell>& cells, std::string WtlCell::*name) {
  std::vector<std::string> names;
  for (const WtlCell& cell : cells) {
    if (std::ranges::find(names, cell.*name) == names.end()) names.push_back(cell.*name);
  }
  return names;
}

/// Opponents are rows and tasks columns, or the other way round if there are more tasks: the longer list fits
/// downwards.
std::string Table(const std::string& subject, const std::vector<WtlCell>& cells) {
  std::string WtlCell::*across = &WtlCell::task;
  std::string WtlCell::*down = &WtlCell::opponent;
  if (InOrder(cells, across).size() > InOrder(cells, down).size()) std::swap(across, down);
  const auto title = [&](std::string WtlCell::*name, const std::string& text) {
    return absl::StrCat(name == &WtlCell::opponent ? "against " : "", EscapeHtml(text));
  };
  std::vector<std::string> heading{""};
  for (const std::string& name : InOrder(cells, across)) heading.push_back(title(across, name));
  std::string rows = TableRow("th", heading);
  for (const std::string& name : InOrder(cells, down)) {
    std::vector<std::string> row{absl::StrCat("<strong>", title(down, name), "</strong>")};
    for (const std::string& other : InOrder(cells, across)) {
      std::string& html = row.emplace_back();
      for (const WtlCell& cell : cells) {
        if (cell.*down == name && cell.*across == other) html.append(CellHtml(cell));
      }
    }
    rows.append(TableRow("td", row));
  }
  return absl::StrCat("<div class=\"scroll\"><table class=\"wtl-table\"><caption>", EscapeHtml(subject),
                      " wins / ties / losses</caption>", rows, "</table></div>\n");
}

/// Cells with this agreement and what is known about each, together if they have the same reason.
std::string ListCells(const ComparisonSettings& comparison, const std::vector<WtlCell>& cells, Agreement agreement,
                      const std::string& without_note) {
  std::map<std::string, std::string> places_by_note;
  for (const WtlCell& cell : cells) {
    if (!cell.paper || cell.agreement() != agreement) continue;
    absl::StrAppend(&places_by_note[NoteOn(comparison, cell)], "<li><b>",
                    EscapeHtml(absl::StrCat(cell.task, " against ", cell.opponent, ", ", SpanText(cell.span))),
                    "</b> (", CountsText(cell.counts), ", paper ", CountsText(*cell.paper),
                    "): ", EscapeHtml(DescribeMeans(comparison.subject, cell)), ".</li>\n");
  }
  std::string html;
  for (const auto& [note, places] : places_by_note) {
    absl::StrAppend(&html, "<li><span>", EscapeHtml(note.empty() ? without_note : note), "</span><ul>\n", places,
                    "</ul></li>\n");
  }
  return html.empty() ? "" : absl::StrCat("<ul class=\"differences\">\n", html, "</ul>\n");
}

std::string Differences(const ComparisonSettings& comparison, const std::vector<WtlCell>& cells) {
  std::size_t compared = 0;
  std::map<Agreement, std::size_t> counts;
  for (const WtlCell& cell : cells) {
    if (!cell.paper) continue;
    ++compared;
    ++counts[cell.agreement()];
  }
  if (compared == 0) return "";
  std::string html = absl::StrCat("<h3>Compared with the paper</h3><p>", counts[Agreement::kSame], " of ", compared,
                                  " cells lean the way the paper’s do: more rounds won than lost, or fewer.");
  if (counts[Agreement::kSame] < compared) {
    html.append(
        " For each of the others: by how much the two differ on average over the rounds (± the 95% interval over the "
        "runs), and how both compare with random, which has no settings that could differ between the programs.");
  }
  html.append("</p>\n");
  const std::string opposite = ListCells(comparison, cells, Agreement::kOpposite,
                                         "No cause is known: the same halves, settings and test, by another program.");
  const std::string undecided = ListCells(comparison, cells, Agreement::kUndecided,
                                          "Too few rounds differ by more than chance to say which way it leans.");
  if (!opposite.empty())
    absl::StrAppend(&html, "<p>", counts[Agreement::kOpposite], " lean the other way (≠):</p>", opposite);
  if (!undecided.empty()) {
    absl::StrAppend(&html, "<p>", counts[Agreement::kUndecided], " lean in one of the two only (≈):</p>", undecided);
  }
  return html;
}

}  // namespace

std::string WtlSection(const ExperimentSpec& spec, const std::vector<WtlCell>& cells) {
  if (cells.empty()) return "";
  const std::string introduction = absl::StrCat(
      "For every round a one-sided paired t-test at 0.05 over the runs: does ", EscapeHtml(spec.comparison.subject),
      " have the higher ", MetricName(spec.metric),
      " (<span class=\"key win\">win</span>), the lower (<span class=\"key loss\">loss</span>), or can they not be "
      "told "
      "apart (<span class=\"key tie\">tie</span>)?");
  return Section("wtl", "Wins, ties and losses", introduction,
                 Table(spec.comparison.subject, cells) + Differences(spec.comparison, cells));
}

namespace {

std::string ShareText(const CurveSet& curves, const std::string& task, const std::string& strategy) {
  std::vector<double> shares;
  for (const Curve* curve : curves.Of(task, strategy)) shares.push_back(curve->points.back().queried_positive_share);
  const double share = MeanWithInterval(shares).mean;
  if (std::isnan(share)) return "–";
  const std::string ratio = share > 0 ? absl::StrFormat("%.2f : 1", (1 - share) / share) : "none";
  return absl::StrFormat("%.1f%% <small>%s</small>", 100 * share, ratio);
}

}  // namespace

std::string QueriedSection(const ExperimentSpec& spec, const CurveSet& curves, const SeriesColors& colors) {
  std::vector<std::string> heading{"strategy"};
  const std::vector<std::string> tasks = curves.Tasks();
  for (const std::string& task : tasks) heading.push_back(EscapeHtml(task));
  std::string rows = TableRow("th", heading);
  for (const std::string& strategy : colors.strategies()) {
    std::vector<std::string> row{
        absl::StrCat("<span class=\"dot ", colors.ClassOf(strategy), "\"></span>", EscapeHtml(strategy))};
    for (const std::string& task : tasks) row.push_back(ShareText(curves, task, strategy));
    rows.append(TableRow("td", row));
  }
  std::set<std::string> positives;
  for (const TaskSettings& task : spec.tasks) positives.insert(absl::StrCat("‘", EscapeHtml(task.positive), "’"));
  return Section("queried", "What was queried",
                 absl::StrCat("The share of the positive class (", absl::StrJoin(positives, " or "),
                              ") among all queries of a run, mean over the runs, and how many queries of other classes "
                              "there are for one of it."),
                 absl::StrCat("<div class=\"scroll\"><table class=\"numbers\">", rows, "</table></div>\n"));
}

namespace {

/// The mean over the runs at the last round, in percent; a dash if there is none.
std::string MeanPercent(const std::vector<const Curve*>& curves, double CurvePoint::*value) {
  std::vector<double> values;
  for (const Curve* curve : curves) values.push_back(curve->points.back().*value);
  const double mean = MeanWithInterval(values).mean;
  return std::isnan(mean) ? "–" : absl::StrFormat("%.1f", 100 * mean);
}

}  // namespace

std::string QualitySection(const CurveSet& curves, const SeriesColors& colors) {
  const std::vector<std::string> tasks = curves.Tasks();
  std::vector<std::string> heading{"strategy"};
  for (const std::string& task : tasks) heading.push_back(EscapeHtml(task));
  std::string rows = TableRow("th", heading);
  for (const std::string& strategy : colors.strategies()) {
    std::vector<std::string> row{
        absl::StrCat("<span class=\"dot ", colors.ClassOf(strategy), "\"></span>", EscapeHtml(strategy))};
    for (const std::string& task : tasks) {
      const std::vector<const Curve*> runs = curves.Of(task, strategy);
      row.push_back(absl::StrCat(MeanPercent(runs, &CurvePoint::accuracy), " <small>",
                                 MeanPercent(runs, &CurvePoint::macro_f1), " · ",
                                 MeanPercent(runs, &CurvePoint::calibration_error), "</small>"));
    }
    rows.append(TableRow("td", row));
  }
  return Section("quality", "The classifier at the end",
                 "After the last round, on the test half, in percent, mean over the runs: the accuracy; then macro-F1 "
                 "(the mean of the F1 scores of all classes) and the expected calibration error (by how much the "
                 "probability of the predicted class differs from how often that class is right, in ten bins).",
                 absl::StrCat("<div class=\"scroll\"><table class=\"numbers\">", rows, "</table></div>\n"));
}

namespace {

// From here on a cell has the full colour.
constexpr double kDarkestShare = 0.10;

std::string ShareCell(double share, const std::string& detail, bool strong) {
  const double depth = std::min(1.0, share / kDarkestShare);
  const std::string text = absl::StrFormat("%.1f%%", 100 * share);
  return absl::StrFormat("<td class=\"heat\" style=\"--depth:%.3f\" title=\"%s\">%s</td>", depth, detail,
                         strong ? absl::StrCat("<b>", text, "</b>") : text);
}

std::string AreaOf(const TaskRegret& task, const std::string& strategy) {
  const auto found = std::ranges::find(task.entries, strategy, &RegretEntry::strategy);
  if (found == task.entries.end()) return "<td>–</td>";
  const std::string detail = absl::StrFormat("area %.4f, %.4f below the best", found->area, found->regret);
  if (found->regret == 0) {
    return absl::StrFormat("<td class=\"heat best\" style=\"--depth:0\" title=\"%s\">best</td>", detail);
  }
  return ShareCell(found->share, detail, false);
}

}  // namespace

std::string RegretSection(const std::vector<TaskRegret>& tasks, const SeriesColors& colors) {
  std::vector<std::string> heading{"strategy"};
  for (const TaskRegret& task : tasks) heading.push_back(EscapeHtml(task.task));
  heading.insert(heading.end(), {"mean", "largest"});
  std::string rows = TableRow("th", heading);
  for (const RegretSummary& summary : SummarizeRegret(tasks)) {
    absl::StrAppend(&rows, "<tr><td class=\"strategy\"><span class=\"dot ", colors.ClassOf(summary.strategy),
                    "\"></span>", EscapeHtml(summary.strategy), "</td>");
    for (const TaskRegret& task : tasks) rows.append(AreaOf(task, summary.strategy));
    absl::StrAppend(&rows, ShareCell(summary.mean_share, "mean over the tasks", true),
                    ShareCell(summary.largest_share, "largest over the tasks", false), "</tr>\n");
  }
  return Section(
      "regret", "Regret",
      "The area under a strategy’s mean curve that is missing to the best strategy’s of the task, as a share "
      "of the best one’s. Small everywhere is what one wants of a default.",
      absl::StrCat("<div class=\"scroll\"><table class=\"numbers\">", rows, "</table></div>\n"));
}

namespace {

std::string RatioText(const std::optional<double>& ratio) {
  if (!ratio) return "–";
  return std::isfinite(*ratio) ? absl::StrFormat("%.2f", *ratio) : "not reached";
}

}  // namespace

std::string LabelNeedsSection(const std::vector<TaskRegret>& tasks, const SeriesColors& colors) {
  const std::vector<LabelNeeds> all = SummarizeLabels(tasks);
  if (std::ranges::all_of(all, [](const LabelNeeds& needs) { return needs.reached == 0; })) return "";
  std::vector<std::string> heading{"strategy"};
  for (const TaskRegret& task : tasks) heading.push_back(EscapeHtml(task.task));
  heading.insert(heading.end(), {"tasks", "of random’s"});
  std::string rows = TableRow("th", heading);
  for (const LabelNeeds& needs : all) {
    absl::StrAppend(&rows, "<tr><td class=\"strategy\"><span class=\"dot ", colors.ClassOf(needs.strategy),
                    "\"></span>", EscapeHtml(needs.strategy), "</td>");
    for (const TaskRegret& task : tasks) {
      const auto found = std::ranges::find(task.entries, needs.strategy, &RegretEntry::strategy);
      const bool reached = found != task.entries.end() && found->labels_needed;
      absl::StrAppend(&rows, "<td>", reached ? absl::StrFormat("%.0f", *found->labels_needed) : "–", "</td>");
    }
    absl::StrAppendFormat(&rows, "<td>%d</td><td><b>%s</b></td></tr>\n", needs.reached,
                          RatioText(needs.median_of_random));
  }
  return Section("labels", "Labels to 95 percent of the full data",
                 "How many labels a strategy’s mean curve needs for 95 percent of what all labels of the training half "
                 "give; in how many tasks it gets there; and the median over the tasks of its labels over random’s, "
                 "which counts with its last round if it does not get there.",
                 absl::StrCat("<div class=\"scroll\"><table class=\"numbers\">", rows, "</table></div>\n"));
}

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

std::string DescribeClassifier(const ClassifierSettings& settings) {
  if (settings.tune) return "tuned: normalisation, kernel and C are chosen from the labels";
  return absl::StrFormat("%s, %s, C = %g, features: %s", settings.classifier, kernel::DescribeKernel(settings.kernel),
                         settings.c, settings.normalize);
}

std::string DescribeStrategy(const StrategySettings& strategy) {
  std::vector<std::string> own;
  if (strategy.tau) own.push_back(absl::StrFormat("τ %g", *strategy.tau));
  if (strategy.alpha) own.push_back(absl::StrFormat("α %g", *strategy.alpha));
  if (strategy.scale) own.push_back(absl::StrCat("scale ", ScaleName(*strategy.scale)));
  if (strategy.engine != StrategySettings().engine) own.push_back(absl::StrCat("engine ", strategy.engine));
  if (strategy.landmarks > 0) own.push_back(absl::StrCat(strategy.landmarks, " landmarks"));
  if (!strategy.refine_landmarks) own.push_back("not refined");
  if (strategy.classifier) own.push_back(DescribeClassifier(*strategy.classifier));
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
      {"classifier", EscapeHtml(DescribeClassifier(spec.classifier))},
      {"normalisation", "with the statistics of the training half"},
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
