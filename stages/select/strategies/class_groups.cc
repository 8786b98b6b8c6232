#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "stages/select/strategies/strategy_parts.h"
#include "stages/select/strategy.h"

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

namespace {

constexpr std::size_t kFewestEligible = 5;

struct Lag {
  std::size_t class_index = 0;
  std::size_t labels_behind = 0;
  std::size_t known_classes = 0;
};

Lag FindLag(std::span<const std::size_t> counts) {
  Lag lag{.class_index = counts.size()};
  std::size_t labels = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) continue;
    labels += counts[c];
    ++lag.known_classes;
    if (lag.class_index == counts.size() || counts[c] < counts[lag.class_index]) lag.class_index = c;
  }
  if (lag.known_classes < 2) return lag;
  const std::size_t own = counts[lag.class_index];
  lag.labels_behind = (labels - own) / (lag.known_classes - 1) - own;
  return lag;
}

/// The share 2^-b of the number of candidates if every class were as large as this one appears to be.
std::size_t MostEligible(const Lag& lag, ConstMatrixView means) {
  const auto own = static_cast<std::size_t>(std::ranges::count(LikelyClasses(means), lag.class_index));
  const std::size_t if_all_were_as_large = std::min(means.rows(), lag.known_classes * own);
  const double share = std::exp2(-static_cast<double>(lag.labels_behind));
  const auto wanted = static_cast<std::size_t>(share * static_cast<double>(if_all_were_as_large));
  return std::min(means.rows(), std::max(kFewestEligible, wanted));
}

}  // namespace

std::vector<std::size_t> LabelCounts(std::span<const ClassIndex> labels, std::size_t class_count) {
  std::vector<std::size_t> counts(class_count, 0);
  for (const ClassIndex label : labels) {
    if (label != kUnlabeled) ++counts[static_cast<std::size_t>(label)];
  }
  return counts;
}

Matrix<double> BalancedTargets(std::span<const ClassIndex> labels, std::span<const RowIndex> labeled,
                               std::span<const std::size_t> counts) {
  const auto all = static_cast<double>(labeled.size());
  Matrix<double> targets = Matrix<double>::Zero(counts.size(), labeled.size());
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const auto own = static_cast<double>(counts[c]);
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      const bool member = labels[labeled[i]] == static_cast<ClassIndex>(c);
      targets(c, i) = member ? all / (2 * own) : -all / (2 * (all - own));
    }
  }
  return targets;
}

std::vector<std::size_t> LikelyClasses(ConstMatrixView means) {
  std::vector<std::size_t> classes(means.rows());
  for (std::size_t i = 0; i < means.rows(); ++i) {
    const auto row = means.row(i);
    classes[i] = static_cast<std::size_t>(std::ranges::min_element(row, LargerFirst()) - row.begin());
  }
  return classes;
}

std::vector<bool> EligibleForLaggingClass(std::span<const std::size_t> counts, ConstMatrixView means) {
  const Lag lag = FindLag(counts);
  if (lag.labels_behind == 0) return std::vector<bool>(means.rows(), true);
  const std::size_t kept = MostEligible(lag, means);
  std::vector<double> likelihoods(means.rows());
  for (std::size_t i = 0; i < means.rows(); ++i) likelihoods[i] = means(i, lag.class_index);
  std::vector<double> descending = likelihoods;
  std::ranges::nth_element(descending, descending.begin() + static_cast<std::ptrdiff_t>(kept - 1), LargerFirst());
  std::vector<bool> eligible(means.rows());
  for (std::size_t i = 0; i < means.rows(); ++i) eligible[i] = !LargerFirst()(descending[kept - 1], likelihoods[i]);
  return eligible;
}

}  // namespace fulcrum::select
