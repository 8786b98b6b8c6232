#include "stages/select/alevs.h"

#include "stages/select/class_leverage.h"

namespace fulcrum::select {
namespace {

class Alevs final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .class_groups = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const ScoredRows scored = ScoreUnlabeledByLeverage(candidates);
    Selection selection;
    selection.picks = TopByScore(scored.rows, scored.scores, candidates.batch);
    AnnotateFromGroups(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeAlevs() {
  return std::make_unique<Alevs>();
}

}  // namespace fulcrum::select
