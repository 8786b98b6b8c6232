#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/report/report_page.h"

namespace fulcrum::pipeline {
namespace {

constexpr double kWidth = 560, kHeight = 330;
constexpr double kLeft = 52, kRight = 14, kTop = 12, kBottom = 44;

struct Series {
  std::string strategy;
  std::vector<double> labels;
  std::vector<MeanInterval> values;
};

std::vector<Series> Collect(const CurveSet& curves, const std::string& task, Metric metric) {
  std::vector<Series> all;
  for (const std::string& strategy : curves.StrategiesOf(task)) {
    Series& series = all.emplace_back(Series{.strategy = strategy, .labels = {}, .values = {}});
    const std::vector<const Curve*> runs = curves.Of(task, strategy);
    for (std::size_t round = 0; round <= curves.LastRound(task); ++round) {
      std::vector<double> values;
      values.reserve(runs.size());
      for (const Curve* curve : runs) values.push_back(ValueOf(curve->points[round], metric));
      series.labels.push_back(static_cast<double>(runs.front()->points[round].labels));
      series.values.push_back(MeanWithInterval(values));
    }
  }
  return all;
}

/// The values shown: bands may be clipped, since early ones are wide and of little interest.
std::pair<double, double> ValueRange(const std::vector<Series>& all, double full) {
  double low = std::isnan(full) ? 1 : full, high = std::isnan(full) ? 0 : full;
  for (const Series& series : all) {
    for (const MeanInterval& value : series.values) {
      low = std::min(low, value.mean);
      high = std::max(high, value.mean);
    }
  }
  const double margin = std::max(0.005, 0.06 * (high - low));
  return {std::max(0.0, low - margin), std::min(1.0, high + margin)};
}

void DrawAxes(SvgDrawing& drawing, const ChartScale& x, const ChartScale& y, const std::string& metric_name) {
  const std::vector<double> y_ticks = y.Ticks(5);
  const double distance = y_ticks.size() > 1 ? y_ticks[1] - y_ticks[0] : 0.1;
  for (const double tick : y_ticks) {
    drawing.Line(kLeft, y(tick), kWidth - kRight, y(tick), "grid");
    drawing.Text(kLeft - 8, y(tick) + 4, "end", "tick", TickText(tick, distance));
  }
  for (const double tick : x.Ticks(6)) {
    drawing.Line(x(tick), kHeight - kBottom, x(tick), kHeight - kBottom + 4, "axis");
    drawing.Text(x(tick), kHeight - kBottom + 18, "middle", "tick", TickText(tick, 1));
  }
  drawing.Line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "axis");
  drawing.Text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "axis-name", "labels");
  drawing.Text(kLeft, kTop - 1, "start", "axis-name", metric_name);
}

Points LineOf(const Series& series, const ChartScale& x, const ChartScale& y) {
  Points line;
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    line.emplace_back(x(series.labels[i]), y(series.values[i].mean));
  }
  return line;
}

Points BandOf(const Series& series, const ChartScale& x, const ChartScale& y) {
  Points band, back;
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    const auto& [mean, half_width] = series.values[i];
    band.emplace_back(x(series.labels[i]), y(std::min(mean + half_width, y.high())));
    back.emplace_back(x(series.labels[i]), y(std::max(mean - half_width, y.low())));
  }
  band.insert(band.end(), back.rbegin(), back.rend());
  return band;
}

void DrawSeries(SvgDrawing& drawing, const Series& series, const std::string& css_class, const ChartScale& x,
                const ChartScale& y) {
  const Points line = LineOf(series, x, y);
  drawing.BeginGroup(absl::StrCat("series ", css_class));
  drawing.Polygon(BandOf(series, x, y), "band");
  drawing.Polyline(line, "curve", absl::StrFormat("%s: %.4f at the end", series.strategy, series.values.back().mean));
  // Wider and invisible: easier to point at.
  drawing.Polyline(line, "hit", series.strategy);
  drawing.EndGroup();
}

}  // namespace

std::string LearningCurveChart(const CurveSet& curves, const std::string& task, Metric metric,
                               const SeriesColors& colors) {
  const std::vector<Series> all = Collect(curves, task, metric);
  const double full = curves.FullDataMean(task, metric);
  const auto [low, high] = ValueRange(all, full);
  const ChartScale y(low, high, kHeight - kBottom, kTop + 6);
  const ChartScale x(all.front().labels.front(), all.front().labels.back(), kLeft, kWidth - kRight);
  SvgDrawing drawing(kWidth, kHeight, absl::StrCat("Learning curves on ", task));
  DrawAxes(drawing, x, y, MetricName(metric));
  if (!std::isnan(full)) drawing.Line(kLeft, y(full), kWidth - kRight, y(full), "full-data");
  // The first strategy is what the experiment is about: on top of the others.
  for (auto series = all.rbegin(); series != all.rend(); ++series) {
    DrawSeries(drawing, *series, colors.ClassOf(series->strategy), x, y);
  }
  return drawing.Finish();
}

namespace {

constexpr double kSmallWidth = 220, kSmallHeight = 140, kSmallLeft = 34, kSmallRight = 6, kSmallTop = 6,
                 kSmallBottom = 20;

}  // namespace

std::string SmallMultiples(const CurveSet& curves, const std::string& task, Metric metric, const SeriesColors& colors) {
  const std::vector<Series> all = Collect(curves, task, metric);
  const auto [low, high] = ValueRange(all, curves.FullDataMean(task, metric));
  const ChartScale y(low, high, kSmallHeight - kSmallBottom, kSmallTop);
  const ChartScale x(all.front().labels.front(), all.front().labels.back(), kSmallLeft, kSmallWidth - kSmallRight);
  std::string html = "<div class=\"multiples\">\n";
  for (const Series& own : all) {
    SvgDrawing drawing(kSmallWidth, kSmallHeight, absl::StrCat(own.strategy, " on ", task));
    for (const double tick : y.Ticks(3)) {
      drawing.Line(kSmallLeft, y(tick), kSmallWidth - kSmallRight, y(tick), "grid");
      drawing.Text(kSmallLeft - 5, y(tick) + 4, "end", "tick", TickText(tick, 0.01));
    }
    for (const double tick : x.Ticks(3)) {
      drawing.Text(x(tick), kSmallHeight - 4, "middle", "tick", TickText(tick, 1));
    }
    for (const Series& other : all) {
      if (&other != &own) drawing.Polyline(LineOf(other, x, y), "other", other.strategy);
    }
    drawing.BeginGroup(absl::StrCat("series pinned ", colors.ClassOf(own.strategy)));
    drawing.Polygon(BandOf(own, x, y), "band");
    drawing.Polyline(LineOf(own, x, y), "curve", own.strategy);
    drawing.EndGroup();
    absl::StrAppend(&html, "<div><b>", EscapeHtml(own.strategy), "</b>\n", drawing.Finish(), "</div>\n");
  }
  return html + "</div>\n";
}

namespace {

constexpr double kTimeWidth = 560, kTimeLeft = 128, kTimeRight = 64, kTimeTop = 8, kTimeBottom = 40;
constexpr double kRowHeight = 26, kBoxHeight = 14;
// Shorter times are below the resolution of the clock.
constexpr double kShortestMilliseconds = 1e-3;

struct Box {
  std::string strategy;
  double low = 0, lower = 0, median = 0, upper = 0, high = 0;  // milliseconds
};

double QuantileOf(const std::vector<double>& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<Box> Collect(const CurveSet& curves, const std::string& task) {
  std::vector<Box> boxes;
  for (const std::string& strategy : curves.StrategiesOf(task)) {
    std::vector<double> times;
    for (const Curve* curve : curves.Of(task, strategy)) {
      for (const CurvePoint& point : curve->points) {
        if (point.round > 0) times.push_back(std::max(point.select_seconds * 1e3, kShortestMilliseconds));
      }
    }
    if (times.empty()) continue;
    std::ranges::sort(times);
    boxes.push_back({strategy, QuantileOf(times, 0.05), QuantileOf(times, 0.25), QuantileOf(times, 0.5),
                     QuantileOf(times, 0.75), QuantileOf(times, 0.95)});
  }
  return boxes;
}

ChartScale TimeScale(const std::vector<Box>& boxes) {
  double low = boxes.front().low, high = boxes.front().high;
  for (const Box& box : boxes) {
    low = std::min(low, box.low);
    high = std::max(high, box.high);
  }
  const double first = std::pow(10, std::floor(std::log10(low))), last = std::pow(10, std::ceil(std::log10(high)));
  return {first, std::max(last, 10 * first), kTimeLeft, kTimeWidth - kTimeRight, /*logarithmic=*/true};
}

std::string TimeText(double milliseconds) {
  if (milliseconds >= 1000) return absl::StrFormat("%.3g s", milliseconds / 1000);
  if (milliseconds >= 1) return absl::StrFormat("%.3g ms", milliseconds);
  return absl::StrFormat("%.3g µs", milliseconds * 1000);
}

void DrawBox(SvgDrawing& drawing, const Box& box, double middle, const std::string& css_class, const ChartScale& x) {
  drawing.Text(kTimeLeft - 10, middle + 4, "end", "name", box.strategy);
  drawing.BeginGroup(absl::StrCat("series ", css_class));
  drawing.Line(x(box.low), middle, x(box.high), middle, "whisker");
  for (const double end : {box.low, box.high}) drawing.Line(x(end), middle - 4, x(end), middle + 4, "whisker");
  drawing.Rect(x(box.lower), middle - kBoxHeight / 2, x(box.upper) - x(box.lower), kBoxHeight, "box");
  drawing.Line(x(box.median), middle - kBoxHeight / 2, x(box.median), middle + kBoxHeight / 2, "median");
  drawing.EndGroup();
  drawing.Text(kTimeWidth - kTimeRight + 8, middle + 4, "start", "tick", TimeText(box.median));
}

}  // namespace

std::string SelectionTimeChart(const CurveSet& curves, const std::string& task, const SeriesColors& colors) {
  const std::vector<Box> boxes = Collect(curves, task);
  if (boxes.empty()) return "";
  const double height = kTimeTop + kTimeBottom + kRowHeight * static_cast<double>(boxes.size());
  const ChartScale x = TimeScale(boxes);
  SvgDrawing drawing(kTimeWidth, height, absl::StrCat("Selection time on ", task));
  for (const double tick : x.Ticks(0)) {
    drawing.Line(x(tick), kTimeTop, x(tick), height - kTimeBottom, "grid");
    drawing.Text(x(tick), height - kTimeBottom + 16, "middle", "tick", TimeText(tick));
  }
  drawing.Text((kTimeLeft + kTimeWidth - kTimeRight) / 2, height - 6, "middle", "axis-name",
               "time to choose a round's queries");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    DrawBox(drawing, boxes[i], kTimeTop + kRowHeight * (static_cast<double>(i) + 0.5),
            colors.ClassOf(boxes[i].strategy), x);
  }
  return drawing.Finish();
}

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
