// What the classifier is least (or most) sure of: the rows with the largest value of one number per row. In a batch:
// the b largest.
#include <algorithm>
#include <cmath>

#include "stages/core/random.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

/// The examples closest to the border between their two most likely classes, by the classifier's own decision value: no
/// probabilities between, which a few labels cannot calibrate. `uncertainty` is the same.
class Margin final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .margin = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return -candidates.margin[row]; });
  }
};

double EntropyOf(std::span<const double> probabilities) {
  double entropy = 0;
  for (const double p : probabilities) entropy -= p == 0 ? 0 : p * std::log(p);
  return entropy;
}

/// The examples whose class probabilities have the largest entropy, -sum_c p_c log p_c.
class Entropy final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .probabilities = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return EntropyOf(candidates.probabilities.row(row)); });
  }
};

/// The examples with the least confident predictions: largest 1 - p(y*|x), p from Platt's fit. This is the uncertainty
/// sampling of the paper's experiments; `margin` needs no probabilities and is better.
class LeastConfident final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return 1 - candidates.confidence[row]; });
  }
};

/// The examples with the most confident predictions: largest p(y*|x). The published batch "uncertainty" sorts in this
/// order; provided only for comparison with it.
class MostConfident final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return candidates.confidence[row]; });
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeMargin() {
  return std::make_unique<Margin>();
}

std::unique_ptr<Strategy> MakeEntropy() {
  return std::make_unique<Entropy>();
}

std::unique_ptr<Strategy> MakeLeastConfident() {
  return std::make_unique<LeastConfident>();
}

std::unique_ptr<Strategy> MakeMostConfident() {
  return std::make_unique<MostConfident>();
}

namespace {

class RandomStrategy final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool needs_labels() const override { return false; }
  bool weighs_costs() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    RowList rows = UnlabeledRows(candidates.labels);
    Random random = Random::Fork(candidates.seed, candidates.queries_so_far);
    Selection selection;
    const CostLimit& limit = candidates.cost;
    Purse purse(limit.budget);
    for (std::size_t i = 0; i < rows.size() && selection.picks.size() < candidates.batch; ++i) {
      std::swap(rows[i], rows[i + random.Below(rows.size() - i)]);
      if (limit.limits()) {
        if (!purse.CanPay(limit.costs[rows[i]])) continue;
        purse.Pay(limit.costs[rows[i]]);
      }
      selection.picks.push_back({.row = rows[i]});
    }
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeRandom() {
  return std::make_unique<RandomStrategy>();
}

}  // namespace fulcrum::select
