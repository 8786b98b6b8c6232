// Box plots of how long each strategy takes to choose the queries of a round, on a logarithmic axis.
#pragma once

#include <string>

#include "pipeline/experiment/curve_set.h"
#include "pipeline/experiment/report/series_colors.h"

namespace fulcrum::pipeline {

/// An SVG element: box from the lower to the upper quartile, a line at the median, whiskers to 5% and 95%.
std::string SelectionTimeChart(const CurveSet& curves, const std::string& task, const SeriesColors& colors);

}  // namespace fulcrum::pipeline
