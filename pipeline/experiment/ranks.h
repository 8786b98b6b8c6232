// Mean ranks of strategies and which of them differ: Friedman's ranks with Nemenyi's critical difference, as in Demsar,
// "Statistical Comparisons of Classifiers over Multiple Data Sets" (2006). Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/experiment/curves.h"

namespace fulcrum::pipeline {

struct StrategyRank {
  std::string strategy = {};
  double mean_rank = 0;  ///< 1 is best; equal areas share their ranks
};

struct RankComparison {
  std::vector<StrategyRank> ranks = {};  ///< best first
  /// What is ranked in: every task or, with fewer than five tasks, every run of every task.
  std::size_t blocks = 0;
  bool blocks_are_tasks = false;
  double critical_difference = 0;  ///< at 0.05: strategies whose mean ranks are closer cannot be distinguished

  /// The largest sets of consecutive strategies, two or more, that cannot be distinguished: first and last index each.
  std::vector<std::pair<std::size_t, std::size_t>> Groups() const;
};

/// Ranks by the area under the curve. Strategies that some task or run lacks are left out. Nothing if fewer than two
/// strategies or two blocks are left, or more than 20 strategies, for which the test has no tabulated values.
std::optional<RankComparison> CompareRanks(const CurveSet& curves, Metric metric);

}  // namespace fulcrum::pipeline
