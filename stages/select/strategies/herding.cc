// MaxHerding (arXiv 2407.12212): the examples that cover most of the pool, given what is labeled (coverage.h). It needs
// no classifier and no label, so it is also the first batch of every strategy that does.
// The width is one at which half of all pairs of rows have a similarity below exp(-2): width^2 is half the median of
// their squared distances. Wider kernels pick the middle of the pool again and again, narrower ones single rows.
#include <cmath>

#include "stages/select/greedy/coverage.h"
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class Herding final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool ignores_answers() const override { return true; }
  bool needs_labels() const override { return false; }
  bool weighs_costs() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const PoolCover cover(candidates, Distance::kEuclidean);
    const double width = std::sqrt(MedianSquaredDistance(*candidates.features, cover.references()) / 2);
    return cover.Select(width, std::vector<double>(cover.references().size(), 1.0));
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeHerding() {
  return std::make_unique<Herding>();
}

}  // namespace fulcrum::select
