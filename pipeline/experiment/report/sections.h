// The win/tie/loss table of the report: ours with the paper's below, and why some differ.
#pragma once

#include <string>
#include <vector>

#include "pipeline/experiment/comparison.h"
#include "pipeline/experiment/curves.h"
#include "pipeline/experiment/experiment.h"
#include "pipeline/experiment/experiment_spec.h"
#include "pipeline/experiment/report/svg_chart.h"

namespace fulcrum::pipeline {

/// HTML; empty if nothing was compared.
std::string WtlSection(const ExperimentSpec& spec, const std::vector<WtlCell>& cells);

// What was queried: the classes among all queries of a run. Paper, table "class ratios of the queried sets".

/// HTML: the mean share of the positive class among the queries, and the ratio of the others to it.
std::string QueriedSection(const ExperimentSpec& spec, const CurveSet& curves, const SeriesColors& colors);

// The regret table of the report: how far each strategy is below the best one of each task.

/// HTML; strategies by their mean regret, smallest first.
std::string RegretSection(const std::vector<TaskRegret>& tasks, const SeriesColors& colors);
/// Empty if no strategy comes near to what all labels give, or if that is not known.
std::string LabelNeedsSection(const std::vector<TaskRegret>& tasks, const SeriesColors& colors);

// The exact settings, data and versions behind a report, so that the page can be reproduced.

std::string SettingsSection(const ExperimentSpec& spec, const ExperimentOptions& options,
                            const ExperimentResult& result);

// The critical-difference diagram: mean ranks, and which strategies cannot be distinguished.

/// HTML; empty if there is too little to rank.
std::string RankSection(const CurveSet& curves, Metric metric, const SeriesColors& colors);

// Charts of one task.

/// An SVG element; lines and bands have the classes of their series.
std::string LearningCurveChart(const CurveSet& curves, const std::string& task, Metric metric,
                               const SeriesColors& colors);

/// Small charts, one per strategy: its curve with its band in front of those of the others. HTML.
std::string SmallMultiples(const CurveSet& curves, const std::string& task, Metric metric, const SeriesColors& colors);

// Box plots of how long each strategy takes to choose the queries of a round, on a logarithmic axis.

/// An SVG element: box from the lower to the upper quartile, a line at the median, whiskers to 5% and 95%.
std::string SelectionTimeChart(const CurveSet& curves, const std::string& task, const SeriesColors& colors);

}  // namespace fulcrum::pipeline
