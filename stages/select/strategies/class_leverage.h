// Leverage scores of the class groups, scaled as a strategy wants them. METHOD section 1, "Scale".
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stages/select/strategy.h"

namespace fulcrum::select {

/// What l_i of the group are multiplied by: 1, m/k (the mean becomes 1), or 1 over the largest (which becomes 1).
double LeverageFactor(const Group& group, LeverageScale scale);
/// l_i of the group times the factor.
std::vector<double> ScaledLeverage(const Group& group, LeverageScale scale);

/// The unlabeled rows of all groups and, in the same order, their scores.
struct ScoredRows {
  RowList rows;
  std::vector<double> scores;
};
/// Scores are times m/k inside each class, so that classes of different sizes and ranks compare.
ScoredRows ScoreUnlabeledByLeverage(const Candidates& candidates);

/// Fills in class and unscaled leverage of each pick from the group it is in.
void AnnotateFromGroups(const Candidates& candidates, std::span<Pick> picks);

// How a batch is divided among the classes. METHOD section 1: b_c = b / C; what is left over goes to the
// classes with the fewest labels; a class that runs out gives its share to the others by the same rule.

/// The share of each class. Sums to `batch`, or to all that is available where that is less. Among classes with
/// equally many labels the smaller index comes first.
std::vector<std::size_t> DivideBatch(std::size_t batch, std::span<const std::size_t> labeled_counts,
                                     std::span<const std::size_t> available_counts);

}  // namespace fulcrum::select
