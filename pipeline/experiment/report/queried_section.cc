#include "pipeline/experiment/report/queried_section.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "pipeline/experiment/report/html_text.h"
#include "pipeline/experiment/t_test.h"

namespace fulcrum::pipeline {
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

}  // namespace fulcrum::pipeline
