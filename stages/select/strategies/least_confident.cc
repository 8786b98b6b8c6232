// The examples with the least confident predictions: largest 1 - p(y*|x), p from Platt's fit. In a batch: the b
// largest. This is the uncertainty sampling of the paper's experiments; `margin` needs no probabilities and is better.
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class LeastConfident final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return 1 - candidates.confidence[row]; });
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeLeastConfident() {
  return std::make_unique<LeastConfident>();
}

}  // namespace fulcrum::select
