#include "stages/select/class_leverage.h"

#include <algorithm>
#include <cassert>

namespace fulcrum::select {

double LeverageFactor(const Group& group, LeverageScale scale) {
  switch (scale) {
    case LeverageScale::kNone:
      return 1;
    case LeverageScale::kMean:
      return group.rank > 0 ? static_cast<double>(group.rows.size()) / static_cast<double>(group.rank) : 1;
    case LeverageScale::kMax: {
      const double largest = group.leverage.empty() ? 0 : *std::ranges::max_element(group.leverage);
      return largest > 0 ? 1 / largest : 1;
    }
  }
  return 1;
}

std::vector<double> ScaledLeverage(const Group& group, LeverageScale scale) {
  assert(group.leverage.size() == group.rows.size());
  std::vector<double> scores(group.leverage.begin(), group.leverage.end());
  const double factor = LeverageFactor(group, scale);
  for (double& score : scores) score *= factor;
  return scores;
}

ScoredRows ScoreUnlabeledByLeverage(const Candidates& candidates) {
  ScoredRows scored;
  for (const Group& group : candidates.groups) {
    const std::vector<double> scores = ScaledLeverage(group, LeverageScale::kMean);
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      if (candidates.labels[group.rows[i]] != kUnlabeled) continue;
      scored.rows.push_back(group.rows[i]);
      scored.scores.push_back(scores[i]);
    }
  }
  return scored;
}

void AnnotateFromGroups(const Candidates& candidates, std::span<Pick> picks) {
  std::vector<Pick*> pick_of_row(candidates.labels.size(), nullptr);
  for (Pick& pick : picks) pick_of_row[pick.row] = &pick;
  for (const Group& group : candidates.groups) {
    for (std::size_t i = 0; i < group.rows.size(); ++i) {
      Pick* const pick = pick_of_row[group.rows[i]];
      if (pick == nullptr) continue;
      pick->class_index = group.class_index;
      pick->leverage = group.leverage[i];
    }
  }
}

}  // namespace fulcrum::select
