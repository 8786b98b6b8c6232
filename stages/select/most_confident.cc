#include "stages/select/most_confident.h"

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
