// How far each strategy stays below the best one of a task: the area under its curve that is missing. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "pipeline/experiment/curve_set.h"

namespace fulcrum::pipeline {

struct RegretEntry {
  std::string strategy = {};
  double area = 0;    ///< under the mean curve by the trapezoid rule, over the number of rounds: a mean of the metric
  double regret = 0;  ///< the best strategy's area less this one
  double share = 0;   ///< of the best strategy's area
};

struct TaskRegret {
  std::string task = {};
  std::vector<RegretEntry> entries = {};  ///< in the order of the curves
};

std::vector<TaskRegret> ComputeRegret(const CurveSet& curves, Metric metric);

/// Mean and largest share over the tasks that have the strategy.
struct RegretSummary {
  std::string strategy = {};
  double mean_share = 0;
  double largest_share = 0;
};

/// Smallest mean first.
std::vector<RegretSummary> SummarizeRegret(const std::vector<TaskRegret>& tasks);

/// regret.csv: task,strategy,area,regret,share
std::string RegretTable(const std::vector<TaskRegret>& tasks);

}  // namespace fulcrum::pipeline
