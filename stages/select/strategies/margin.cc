// The examples closest to the border between their two most likely classes, by the classifier's own decision value: no
// probabilities between, which a few labels cannot calibrate. In a batch: the b closest. `uncertainty` is the same.
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class Margin final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .margin = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return -candidates.margin[row]; });
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeMargin() {
  return std::make_unique<Margin>();
}

}  // namespace fulcrum::select
