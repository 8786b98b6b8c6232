// Uniform over the unlabeled rows, without replacement. Seeded by the seed of the candidates and the number of queries
// so far, so that the rounds of a campaign differ and a repeated round does not. With a cost limit rows that do not fit
// any more are passed over.
#include "stages/core/random.h"

#include <algorithm>

#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
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
