// What was queried: the classes among all queries of a run. Paper, table "class ratios of the queried sets".
#pragma once

#include <string>

#include "pipeline/experiment/curve_set.h"
#include "pipeline/experiment/experiment_spec.h"
#include "pipeline/experiment/report/series_colors.h"

namespace fulcrum::pipeline {

/// HTML: the mean share of the positive class among the queries, and the ratio of the others to it.
std::string QueriedSection(const ExperimentSpec& spec, const CurveSet& curves, const SeriesColors& colors);

}  // namespace fulcrum::pipeline
