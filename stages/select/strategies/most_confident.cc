// The examples with the most confident predictions: largest p(y*|x). The published batch "uncertainty" sorts in this
// order; provided only for comparison with it.
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class MostConfident final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return candidates.confidence[row]; });
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeMostConfident() {
  return std::make_unique<MostConfident>();
}

}  // namespace fulcrum::select
