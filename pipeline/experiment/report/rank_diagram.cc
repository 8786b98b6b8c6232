#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/ranks.h"
#include "pipeline/experiment/report/sections.h"
#include "pipeline/experiment/report/svg_chart.h"

namespace fulcrum::pipeline {
namespace {

constexpr double kRankWidth = 760, kRankSide = 190, kAxisY = 44, kGroupGap = 9, kNameGap = 24;

/// Names of the better half hang at the left, those of the others at the right, so that no two lines cross.
void DrawNames(SvgDrawing& drawing, const RankComparison& comparison, const ChartScale& x, double first_y,
               const SeriesColors& colors) {
  const std::size_t count = comparison.ranks.size();
  const std::size_t left = (count + 1) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [strategy, rank] = comparison.ranks[i];
    const bool at_left = i < left;
    const double y = first_y + kNameGap * static_cast<double>(at_left ? i : count - 1 - i);
    const double side = at_left ? kRankSide - 12 : kRankWidth - kRankSide + 12;
    drawing.BeginGroup(absl::StrCat("series ", colors.ClassOf(strategy)));
    drawing.Line(x(rank), kAxisY, x(rank), y, "hanger");
    drawing.Line(x(rank), y, side, y, "hanger");
    drawing.EndGroup();
    const std::string number = absl::StrFormat("%.2f", rank);
    drawing.Text(at_left ? side - 8 : side + 8, y + 4, at_left ? "end" : "start", "name",
                 at_left ? absl::StrCat(strategy, "  ", number) : absl::StrCat(number, "  ", strategy));
  }
}

}  // namespace

std::string RankSection(const CurveSet& curves, Metric metric, const SeriesColors& colors) {
  const std::optional<RankComparison> comparison = CompareRanks(curves, metric);
  if (!comparison) return "";
  const std::size_t count = comparison->ranks.size();
  const auto groups = comparison->Groups();
  const double names_y = kAxisY + 22 + kGroupGap * static_cast<double>(groups.size());
  const double height = names_y + kNameGap * static_cast<double>((count + 1) / 2);
  const ChartScale x(1, static_cast<double>(count), kRankSide, kRankWidth - kRankSide);
  SvgDrawing drawing(kRankWidth, height, "Mean ranks and critical difference");
  drawing.Line(x(1), kAxisY, x(static_cast<double>(count)), kAxisY, "axis");
  for (std::size_t rank = 1; rank <= count; ++rank) {
    const double at = x(static_cast<double>(rank));
    drawing.Line(at, kAxisY - 5, at, kAxisY, "axis");
    drawing.Text(at, kAxisY - 10, "middle", "tick", absl::StrCat(rank));
  }
  DrawNames(drawing, *comparison, x, names_y + 8, colors);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double y = kAxisY + 10 + kGroupGap * static_cast<double>(i);
    drawing.Line(x(comparison->ranks[groups[i].first].mean_rank) - 4, y,
                 x(comparison->ranks[groups[i].second].mean_rank) + 4, y, "group");
  }
  const double difference = std::min(comparison->critical_difference, static_cast<double>(count) - 1);
  drawing.Line(x(1), 8, x(1 + difference), 8, "difference");
  drawing.Text(x(1 + difference) + 8, 12, "start", "tick",
               absl::StrFormat("critical difference %.2f", comparison->critical_difference));
  const std::string blocks = comparison->blocks_are_tasks ? "tasks" : "runs of tasks, since there are few tasks";
  return Section(
      "ranks", "Ranks",
      absl::StrCat("The mean rank of each strategy by the area under its curve over ", comparison->blocks, " ", blocks,
                   "; 1 is best. Strategies that a bar joins cannot be distinguished (Friedman and Nemenyi, "
                   "0.05)."),
      absl::StrCat("<figure class=\"ranks\">\n", drawing.Finish(), "</figure>\n"));
}

}  // namespace fulcrum::pipeline
