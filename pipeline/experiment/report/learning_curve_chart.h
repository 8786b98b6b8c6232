// Learning curves of one task: a line a strategy (mean over the runs) with its confidence band, and the full-data line.
#pragma once

#include <string>

#include "pipeline/experiment/curve_set.h"
#include "pipeline/experiment/report/series_colors.h"

namespace fulcrum::pipeline {

/// An SVG element; lines and bands have the classes of their series.
std::string LearningCurveChart(const CurveSet& curves, const std::string& task, Metric metric,
                               const SeriesColors& colors);

}  // namespace fulcrum::pipeline
