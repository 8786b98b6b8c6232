#include "stages/select/strategies/class_leverage.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "stages/select/score_order.h"

namespace fulcrum::select {

double LeverageFactor(const Group& group, LeverageScale scale) {
  switch (scale) {
    case LeverageScale::kNone:
      return 1;
    case LeverageScale::kMean:
      return group.rank > 0 ? static_cast<double>(group.rows.size()) / static_cast<double>(group.rank) : 1;
    case LeverageScale::kMax: {
      const double largest = group.leverage.empty() ? 0 : *std::ranges::min_element(group.leverage, LargerFirst());
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

namespace {

std::vector<std::size_t> FewestLabelsFirst(std::span<const std::size_t> labeled_counts) {
  std::vector<std::size_t> order(labeled_counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return labeled_counts[a] < labeled_counts[b]; });
  return order;
}

}  // namespace

std::vector<std::size_t> DivideBatch(std::size_t batch, std::span<const std::size_t> labeled_counts,
                                     std::span<const std::size_t> available_counts) {
  assert(labeled_counts.size() == available_counts.size());
  std::vector<std::size_t> shares(labeled_counts.size(), 0);
  std::vector<std::size_t> open = FewestLabelsFirst(labeled_counts);
  while (batch > 0 && !open.empty()) {
    const std::size_t even_share = batch / open.size();
    const std::size_t left_over = batch % open.size();
    for (std::size_t i = 0; i < open.size(); ++i) {
      const std::size_t wanted = even_share + (i < left_over ? 1 : 0);
      const std::size_t given = std::min(wanted, available_counts[open[i]] - shares[open[i]]);
      shares[open[i]] += given;
      batch -= given;
    }
    std::erase_if(open, [&](std::size_t index) { return shares[index] == available_counts[index]; });
  }
  return shares;
}

}  // namespace fulcrum::select
