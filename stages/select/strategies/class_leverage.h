// Leverage scores of the class groups, scaled as required by a strategy. METHOD section 1, "Scale".
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stages/select/strategy.h"

namespace fulcrum::select {

/// Returns the factor of l_i of the group: 1, m/k (the mean becomes 1), or 1 over the largest (which becomes 1).
double LeverageFactor(const Group& group, LeverageScale scale);
/// Returns l_i of the group times the factor.
std::vector<double> ScaledLeverage(const Group& group, LeverageScale scale);

/// The unlabeled rows of all groups and, in the same order, their scores.
struct ScoredRows {
  RowList rows;
  std::vector<double> scores;
};
/// Scores are multiplied by m/k within each class, so that classes of different sizes and ranks are comparable.
ScoredRows ScoreUnlabeledByLeverage(const Candidates& candidates);

/// Sets the class and the unscaled leverage of each pick from its group.
void AnnotateFromGroups(const Candidates& candidates, std::span<Pick> picks);

// Division of a batch among the classes. METHOD section 1: b_c = b / C; the remainder goes to the classes with the
// fewest labels; the share of an exhausted class goes to the others by the same rule.

/// Returns the share of each class. The sum is `batch`, or all available rows if there are fewer. Among classes with
/// the same number of labels the smaller index is first.
std::vector<std::size_t> DivideBatch(std::size_t batch, std::span<const std::size_t> labeled_counts,
                                     std::span<const std::size_t> available_counts);

}  // namespace fulcrum::select
