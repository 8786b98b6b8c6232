#include "pipeline/client/curve_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace fulcrum::pipeline {
namespace {

constexpr int kEighths = 8;
constexpr const char* kBlocks[kEighths + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

std::vector<double> Columns(const std::vector<PlotPoint>& points, std::size_t width) {
  const std::size_t count = std::min(points.size(), width);
  std::vector<double> columns(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * points.size() / count;
    const std::size_t end = (i + 1) * points.size() / count;
    for (std::size_t j = begin; j < end; ++j) columns[i] += points[j].y / static_cast<double>(end - begin);
  }
  return columns;
}

/// Heights in eighths of a line; the lowest is one, so that it is seen.
std::vector<int> Heights(const std::vector<double>& columns, double low, double high, std::size_t lines) {
  const int most = static_cast<int>(lines) * kEighths;
  std::vector<int> heights;
  for (const double value : columns) {
    const double share = high > low ? (value - low) / (high - low) : 1;
    heights.push_back(1 + static_cast<int>(std::lround(share * (most - 1))));
  }
  return heights;
}

std::string AxisLabel(std::size_t line, std::size_t lines, double low, double high) {
  if (line == 0) return absl::StrFormat("%7.2f%% ┤", 100 * high);
  if (line + 1 == lines) return absl::StrFormat("%7.2f%% ┤", 100 * low);
  return "         │";
}

}  // namespace

std::string DrawCurve(const std::vector<PlotPoint>& points, const std::string& x_name, const PlotSize& size) {
  if (points.empty() || size.width == 0 || size.height < 2) return "";
  const std::vector<double> columns = Columns(points, size.width);
  const auto [low, high] = std::minmax_element(columns.begin(), columns.end());
  const std::vector<int> heights = Heights(columns, *low, *high, size.height);
  std::string text;
  for (std::size_t line = 0; line < size.height; ++line) {
    absl::StrAppend(&text, AxisLabel(line, size.height, *low, *high));
    const int below = static_cast<int>(size.height - 1 - line) * kEighths;
    for (const int height : heights) absl::StrAppend(&text, kBlocks[std::clamp(height - below, 0, kEighths)]);
    text.push_back('\n');
  }
  absl::StrAppend(&text, "         └");
  for (std::size_t i = 0; i < columns.size(); ++i) absl::StrAppend(&text, "─");
  absl::StrAppendFormat(&text, "\n          %g to %g %s\n", points.front().x, points.back().x, x_name);
  return text;
}

}  // namespace fulcrum::pipeline
