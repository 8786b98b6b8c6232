// Student's t: the paired one-sided test and the confidence intervals of the experiments. Pure functions, thread-safe.
#pragma once

#include <span>

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

}  // namespace fulcrum::pipeline
