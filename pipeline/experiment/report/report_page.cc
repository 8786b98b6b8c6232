#include "pipeline/experiment/report/report_page.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/experiment.h"

namespace fulcrum::pipeline {
namespace {

// The style sheet and the script of the report: constants of the page.

extern const char kReportStyle[];
extern const char kReportScript[];

const char kReportStyle[] = R"css(
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1c1e21; --muted: #63676e; --line: #e3e4e6; --grid: #ececec;
  --win: #0072b2; --tie: #c9ccd1; --loss: #d55e00; --heat: 213, 94, 0; --accent: #0067a3;
  /* Okabe and Ito's colours, which people with any colour vision can distinguish, and three more; from s5 on dashed.
     Strategies beyond ten have the same colours with other dashes: d1 to d3. */
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #b0568a; --s4: #c98a00; --s5: #3a9bd8; --s6: #4d4d4d;
  --s7: #8a5a2b; --s8: #6a51a3; --s9: #6b7a00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15171a; --card: #1d2024; --ink: #e8eaed; --muted: #9aa0a8; --line: #30343a; --grid: #2a2e33;
    --win: #5b95f5; --tie: #50555c; --loss: #ee9a5d; --heat: 238, 154, 93; --accent: #7aa9f7;
    --s0: #4aa8e8; --s1: #ff8a3d; --s2: #2fcf9f; --s3: #e29bc4; --s4: #f0b429; --s5: #8fd0f7; --s6: #c8c8c8;
    --s7: #d2a679; --s8: #b3a2e6; --s9: #bccb3f;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 40px 28px 80px; }
header h1 { font-size: 30px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
header p { max-width: 76ch; color: var(--muted); margin: 0 0 18px; }
nav { display: flex; flex-wrap: wrap; gap: 6px 18px; margin: 0 0 8px; font-size: 14px; }
nav a { color: var(--accent); text-decoration: none; }
nav a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0 8px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.tile b { display: block; font-size: 22px; line-height: 1.25; font-weight: 650; }
.tile span { color: var(--muted); font-size: 13px; }
section { margin-top: 48px; }
h2 { font-size: 21px; margin: 0 0 6px; letter-spacing: -0.005em; }
h3 { font-size: 16px; margin: 26px 0 6px; }
.lead { color: var(--muted); max-width: 84ch; margin: 0 0 16px; }
.notice { background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--loss);
  border-radius: 8px; padding: 10px 16px; margin: 14px 0 0; }
.notice ul { margin: 4px 0 0; padding-left: 20px; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(480px, 100%), 1fr)); gap: 16px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 14px 8px; }
figcaption { display: flex; justify-content: space-between; align-items: baseline; margin: 0 4px 6px; }
figcaption b { font-size: 16px; }
figcaption span { color: var(--muted); font-size: 13px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-family: inherit; fill: var(--muted); }
.tick { font-size: 12px; font-variant-numeric: tabular-nums; }
.axis-name { font-size: 12px; }
svg .name { font-size: 13px; fill: var(--ink); }
.grid { stroke: var(--grid); stroke-width: 1; }
.axis { stroke: var(--muted); stroke-width: 1; opacity: 0.6; }
.full-data { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 6 5; opacity: 0.65; }
.curve { fill: none; stroke: var(--series); stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.hit { fill: none; stroke: transparent; stroke-width: 14; }
/* A band is shown for the strategy that is pointed at and for up to two that are pinned. */
.band { fill: var(--series); opacity: 0; stroke: none; pointer-events: none; }
.series:hover .band, .series.pointed .band, .series.pinned .band { opacity: 0.18; }
.series:hover .curve, .series.pointed .curve, .series.pinned .curve { stroke-width: 3; }
#curves.focus .series:not(.pinned):not(.pointed):not(:hover) { opacity: 0.25; }
.s5 .curve, .s7 .curve, .s8 .curve, .s9 .curve { stroke-dasharray: 7 4; }
.s6 .curve { stroke-dasharray: 2 4; }
.d1 .curve { stroke-dasharray: 11 3 2 3; } .d2 .curve { stroke-dasharray: 4 2; }
.d3 .curve { stroke-dasharray: 11 3 2 3 2 3; }
.other { fill: none; stroke: var(--muted); stroke-width: 0.8; opacity: 0.35; }
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 14px 18px; padding: 8px 0; }
.multiples b { font-size: 13px; font-weight: 600; }
.multiples .series .curve { stroke-width: 2; }
details { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px; margin: 0 0 12px; }
summary { cursor: pointer; font-weight: 600; }
.ranks { max-width: 860px; overflow-x: auto; }
.ranks svg { min-width: 560px; }
.hanger { stroke: var(--series); stroke-width: 1.6; }
.group { stroke: var(--ink); stroke-width: 4.5; stroke-linecap: round; }
.difference { stroke: var(--muted); stroke-width: 2.5; }
.whisker { stroke: var(--series); stroke-width: 1.4; }
.box { fill: var(--series); fill-opacity: 0.28; stroke: var(--series); stroke-width: 1.2; }
.median { stroke: var(--series); stroke-width: 2.6; }
.s0 { --series: var(--s0); } .s1 { --series: var(--s1); } .s2 { --series: var(--s2); } .s3 { --series: var(--s3); }
.s4 { --series: var(--s4); } .s5 { --series: var(--s5); } .s6 { --series: var(--s6); } .s7 { --series: var(--s7); }
.s8 { --series: var(--s8); } .s9 { --series: var(--s9); }
.legend { display: flex; flex-wrap: wrap; gap: 8px; margin: 0 0 14px; position: sticky; top: 0; z-index: 2;
  background: var(--page); padding: 8px 0; }
.chip { display: inline-flex; align-items: center; gap: 8px; border: 1px solid var(--line); border-radius: 999px;
  background: var(--card); color: var(--ink); font: inherit; font-size: 14px; padding: 3px 12px; }
button.chip { cursor: pointer; }
.chip svg { width: 34px; height: 6px; flex: none; }
.chip svg .curve { stroke-width: 3; }
.chip i { width: 22px; height: 0; border-top: 2px dashed var(--ink); opacity: 0.65; }
.chip[aria-pressed="true"] { border-color: var(--series); box-shadow: inset 0 0 0 1px var(--series); }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
caption { text-align: left; padding: 10px 14px 0; color: var(--muted); }
th, td { padding: 8px 12px; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: none; }
th { font-weight: 600; color: var(--muted); white-space: nowrap; }
.numbers td { font-variant-numeric: tabular-nums; white-space: nowrap; vertical-align: middle; }
.numbers th:not(:first-child), .numbers td:not(:first-child) { text-align: right; }
.numbers small { color: var(--muted); }
.numbers td:first-child { position: sticky; left: 0; background: var(--card); }
.heat { background: rgba(var(--heat), calc(var(--depth) * 0.75)); }
.heat.best { color: var(--win); font-weight: 650; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 3px; background: var(--series);
  margin-right: 8px; }
.wtl-table th, .wtl-table td { padding: 8px 8px; }
.wtl { margin-bottom: 10px; font-variant-numeric: tabular-nums; }
.wtl:last-child { margin-bottom: 0; }
.wtl small { color: var(--muted); display: block; font-size: 12px; }
.wtl .ours, .wtl .paper { display: grid; grid-template-columns: 72px 56px max-content; align-items: center; }
.wtl b { font-weight: 650; }
.wtl .paper { color: var(--muted); font-size: 12.5px; }
.wtl .paper b { font-weight: 400; font-size: 13.5px; }
.wtl em { color: var(--loss); font-style: normal; font-weight: 700; }
.bar { display: inline-flex; width: 50px; height: 9px; border-radius: 3px; overflow: hidden; vertical-align: middle;
  gap: 1px; }
.paper .bar { height: 5px; opacity: 0.75; }
.bar i { display: block; height: 100%; }
.win { background: var(--win); } .tie { background: var(--tie); } .loss { background: var(--loss); }
.key { color: #fff; border-radius: 4px; padding: 0 6px; }
.key.tie { color: var(--ink); }
.differences { padding-left: 20px; max-width: 100ch; }
.differences li { margin-bottom: 8px; }
.differences span { color: var(--muted); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 22px; margin: 18px 4px 0; font-size: 14px; }
dt { color: var(--muted); }
dd { margin: 0; }
@media (max-width: 760px) {
  main { padding: 24px 14px 60px; }
  .legend { position: static; }
  /* Rows become cards; the script gives each cell the heading of its column. */
  .stacks table, .stacks tbody, .stacks tr, .stacks td, .stacks caption { display: block; width: 100%; }
  .stacks tr:first-child { display: none; }
  .stacks tr { padding: 8px 0; border-bottom: 1px solid var(--line); }
  .stacks td { border: none; padding: 3px 14px; text-align: left; white-space: normal; }
  .stacks .numbers td:not(:first-child) { display: flex; justify-content: space-between; text-align: right; }
  .stacks td:not(:first-child)::before { content: attr(data-label); color: var(--muted); margin-right: 12px; font-size: 13px; }
  .stacks td:first-child { font-weight: 600; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin: 0 0 8px; }
}
@media print { .legend { position: static; } body { background: #fff; } figure, .scroll { break-inside: avoid; } }
)css";

const char kReportScript[] = R"js(
const curves = document.getElementById("curves");
const pinned = [];
const groups = (series) => curves.querySelectorAll(`figure g.${series}`);
const mark = (series, name, on) => { for (const group of groups(series)) group.classList.toggle(name, on); };
function pin(series) {
  const at = pinned.indexOf(series);
  if (at >= 0) pinned.splice(at, 1); else pinned.push(series);
  if (pinned.length > 2) mark(pinned.shift(), "pinned", false);
  for (const chip of document.querySelectorAll("button.chip")) {
    const on = pinned.includes(chip.dataset.series);
    chip.setAttribute("aria-pressed", on);
    mark(chip.dataset.series, "pinned", on);
  }
  curves.classList.toggle("focus", pinned.length > 0);
}
for (const chip of document.querySelectorAll("button.chip")) {
  chip.addEventListener("click", () => pin(chip.dataset.series));
  for (const [event, on] of [["pointerenter", true], ["focus", true], ["pointerleave", false], ["blur", false]]) {
    chip.addEventListener(event, () => mark(chip.dataset.series, "pointed", on));
  }
}
for (const table of document.querySelectorAll(".scroll table")) {
  const headings = [...table.rows[0].cells].map((cell) => cell.textContent);
  for (const row of [...table.rows].slice(1)) {
    [...row.cells].forEach((cell, i) => { cell.dataset.label = headings[i]; });
  }
  table.parentElement.classList.add("stacks");
}
)js";

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
  std::string html = "<div class=\"notice\">Left out (data not found):<ul>";
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
    std::string detail = absl::StrCat(task.train_rows, " rows to query, ", task.test_rows, " to test");
    const std::size_t rounds = result.curves.LastRound(task.name);
    if (rounds < spec.rounds)
      absl::StrAppend(&detail, "; the pool ran out after ", rounds, " of ", spec.rounds, " rounds");
    figures.append(Figure(task.name, detail, LearningCurveChart(result.curves, task.name, spec.metric, colors)));
  }
  return Section(
      "curves", "Learning curves",
      absl::StrCat("Mean ", MetricName(spec.metric), " on the test half over ", spec.runs,
                   " runs. Point at a curve or at a name to see its 95% confidence band; click up to two names "
                   "to compare them."),
      figures + "</div>\n");
}

std::string MultiplesSection(const ExperimentSpec& spec, const ExperimentResult& result, const SeriesColors& colors) {
  std::string html;
  for (const TaskSummary& task : result.tasks) {
    absl::StrAppend(&html, "<details", html.empty() ? " open" : "", "><summary>", EscapeHtml(task.name), "</summary>\n",
                    SmallMultiples(result.curves, task.name, spec.metric, colors), "</details>\n");
  }
  return Section("multiples", "Each strategy alone",
                 "Its curve with its 95% confidence band; those of the other strategies are gray.", html);
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
  const std::string ranks = RankSection(result.curves, spec.metric, colors);
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>", EscapeHtml(spec.title),
      "</title>\n<style>", kReportStyle, "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>", EscapeHtml(spec.title),
      "</h1>\n<p>", EscapeHtml(spec.description),
      "</p>\n<nav><a href=\"#curves\">Learning curves</a>"
      "<a href=\"#multiples\">Each strategy alone</a>",
      ranks.empty() ? "" : "<a href=\"#ranks\">Ranks</a>",
      cells.empty() ? "" : "<a href=\"#wtl\">Wins, ties, losses</a>",
      "<a href=\"#regret\">Regret</a><a href=\"#quality\">Classifier</a><a href=\"#queried\">What was queried</a><a "
      "href=\"#times\">Selection time</a>"
      "<a href=\"#settings\">Settings</a></nav>\n",
      Tiles(spec, result, cells, regrets), Skipped(result), "</header>\n", CurvesSection(spec, result, colors),
      MultiplesSection(spec, result, colors), ranks, WtlSection(spec, cells), RegretSection(regrets, colors),
      LabelNeedsSection(regrets, colors), QualitySection(result.curves, colors),
      QueriedSection(spec, result.curves, colors), TimesSection(result, colors), SettingsSection(spec, options, result),
      "</main>\n<script>", kReportScript, "</script>\n</body>\n</html>\n");
}

}  // namespace fulcrum::pipeline
