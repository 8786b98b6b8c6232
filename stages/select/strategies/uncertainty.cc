// The examples with the least confident predictions: largest 1 - p(y*|x). In a batch: the b largest.
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class Uncertainty final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return 1 - candidates.confidence[row]; });
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeUncertainty() {
  return std::make_unique<Uncertainty>();
}

}  // namespace fulcrum::select
