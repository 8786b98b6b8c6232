// The regret table of the report: how far each strategy stays below the best one of each task.
#pragma once

#include <string>
#include <vector>

#include "pipeline/experiment/regret.h"
#include "pipeline/experiment/report/series_colors.h"

namespace fulcrum::pipeline {

/// HTML; strategies by their mean regret, smallest first.
std::string RegretSection(const std::vector<TaskRegret>& tasks, const SeriesColors& colors);

}  // namespace fulcrum::pipeline
