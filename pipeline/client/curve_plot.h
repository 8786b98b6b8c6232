// A learning curve drawn with the characters of a terminal. Stateless and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fulcrum::pipeline {

struct PlotPoint {
  double x = 0;
  double y = 0;  ///< a share: 0.93 is shown as 93%
};

struct PlotSize {
  std::size_t width = 60;  ///< columns of the curve itself
  std::size_t height = 8;
};

/// One bar a point, in eighths of a line, from the smallest y to the largest; where there are more points than columns,
/// each column is the mean of its points. `x_name` names the numbers below: "labels". Empty without points.
std::string DrawCurve(const std::vector<PlotPoint>& points, const std::string& x_name, const PlotSize& size = {});

}  // namespace fulcrum::pipeline
