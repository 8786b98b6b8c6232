#include "pipeline/experiment/report/selection_time_chart.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "pipeline/experiment/report/svg_chart.h"

namespace fulcrum::pipeline {
namespace {

constexpr double kWidth = 560, kLeft = 128, kRight = 64, kTop = 8, kBottom = 40;
constexpr double kRowHeight = 26, kBoxHeight = 14;
// Shorter times than this are below what the clock tells apart.
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
  return {first, std::max(last, 10 * first), kLeft, kWidth - kRight, /*logarithmic=*/true};
}

std::string TimeText(double milliseconds) {
  if (milliseconds >= 1000) return absl::StrFormat("%.3g s", milliseconds / 1000);
  if (milliseconds >= 1) return absl::StrFormat("%.3g ms", milliseconds);
  return absl::StrFormat("%.3g µs", milliseconds * 1000);
}

void DrawBox(SvgDrawing& drawing, const Box& box, double middle, const std::string& css_class, const ChartScale& x) {
  drawing.Text(kLeft - 10, middle + 4, "end", "name", box.strategy);
  drawing.BeginGroup(absl::StrCat("series ", css_class));
  drawing.Line(x(box.low), middle, x(box.high), middle, "whisker");
  for (const double end : {box.low, box.high}) drawing.Line(x(end), middle - 4, x(end), middle + 4, "whisker");
  drawing.Rect(x(box.lower), middle - kBoxHeight / 2, x(box.upper) - x(box.lower), kBoxHeight, "box");
  drawing.Line(x(box.median), middle - kBoxHeight / 2, x(box.median), middle + kBoxHeight / 2, "median");
  drawing.EndGroup();
  drawing.Text(kWidth - kRight + 8, middle + 4, "start", "tick", TimeText(box.median));
}

}  // namespace

std::string SelectionTimeChart(const CurveSet& curves, const std::string& task, const SeriesColors& colors) {
  const std::vector<Box> boxes = Collect(curves, task);
  if (boxes.empty()) return "";
  const double height = kTop + kBottom + kRowHeight * static_cast<double>(boxes.size());
  const ChartScale x = TimeScale(boxes);
  SvgDrawing drawing(kWidth, height, absl::StrCat("Selection time on ", task));
  for (const double tick : x.Ticks(0)) {
    drawing.Line(x(tick), kTop, x(tick), height - kBottom, "grid");
    drawing.Text(x(tick), height - kBottom + 16, "middle", "tick", TimeText(tick));
  }
  drawing.Text((kLeft + kWidth - kRight) / 2, height - 6, "middle", "axis-name", "time to choose a round's queries");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    DrawBox(drawing, boxes[i], kTop + kRowHeight * (static_cast<double>(i) + 0.5), colors.ClassOf(boxes[i].strategy),
            x);
  }
  return drawing.Finish();
}

}  // namespace fulcrum::pipeline
