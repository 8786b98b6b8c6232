#include "pipeline/experiment/report/regret_section.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/report/html_text.h"

namespace fulcrum::pipeline {
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

}  // namespace fulcrum::pipeline
