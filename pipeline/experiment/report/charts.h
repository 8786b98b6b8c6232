// Learning curves of one task: a line a strategy (mean over the runs) with its confidence band, and the full-data line.
#pragma once

#include <string>

#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/report/svg_chart.h"

namespace fulcrum::pipeline {

/// An SVG element; lines and bands have the classes of their series.
std::string LearningCurveChart(const CurveSet& curves, const std::string& task, Metric metric,
                               const SeriesColors& colors);

// Box plots of how long each strategy takes to choose the queries of a round, on a logarithmic axis.

/// An SVG element: box from the lower to the upper quartile, a line at the median, whiskers to 5% and 95%.
std::string SelectionTimeChart(const CurveSet& curves, const std::string& task, const SeriesColors& colors);

}  // namespace fulcrum::pipeline
