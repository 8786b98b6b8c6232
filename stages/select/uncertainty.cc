#include "stages/select/uncertainty.h"

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
