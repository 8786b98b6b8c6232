// Student's t: the paired one-sided test and the confidence intervals of the experiments. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pipeline/experiment/curves.h"

namespace fulcrum::pipeline {

/// P(T <= t) for Student's t with this many degrees of freedom, > 0.
double StudentCdf(double t, double degrees_of_freedom);

/// The t with P(T <= t) = probability, in (0, 1).
double StudentQuantile(double probability, double degrees_of_freedom);

enum class Verdict { kWin, kTie, kLoss };

/// Whether `a` is larger than `b` (a win) or smaller (a loss) by a one-sided paired t-test at this level; a tie
/// otherwise. Element i of both belongs to run i. Differences that are all the same are a win or loss unless zero;
/// fewer than two pairs are a tie.
Verdict ComparePaired(std::span<const double> a, std::span<const double> b, double level = 0.05);

struct MeanInterval {
  double mean = 0;
  double half_width = 0;  ///< of the two-sided confidence interval; 0 for fewer than two values
};

/// NaN values are ignored.
MeanInterval MeanWithInterval(std::span<const double> values, double confidence = 0.95);

// Mean ranks of strategies and which of them differ: Friedman's ranks with Nemenyi's critical difference, as in Demsar,
// "Statistical Comparisons of Classifiers over Multiple Data Sets" (2006). Pure functions.

struct StrategyRank {
  std::string strategy = {};
  double mean_rank = 0;  ///< 1 is best; equal areas share their ranks
};

struct RankComparison {
  std::vector<StrategyRank> ranks = {};  ///< best first
  /// What is ranked in: every task or, with fewer than five tasks, every run of every task.
  std::size_t blocks = 0;
  bool blocks_are_tasks = false;
  double critical_difference = 0;  ///< at 0.05: strategies whose mean ranks are closer cannot be told apart

  /// The largest sets of consecutive strategies, two or more, that cannot be told apart: first and last index each.
  std::vector<std::pair<std::size_t, std::size_t>> Groups() const;
};

/// Ranks by the area under the curve. Strategies that some task or run lacks are left out. Nothing if fewer than two
/// strategies or two blocks are left, or more than 20 strategies, for which the test has no tabulated values.
std::optional<RankComparison> CompareRanks(const CurveSet& curves, Metric metric);

}  // namespace fulcrum::pipeline
