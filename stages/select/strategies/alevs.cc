// ALEVS, paper section "Proposed Sequential Active Learning Method": the unlabeled example with the largest
// leverage score, scaled by m/k inside its class so that classes compare. In a batch: the b largest.
#include "stages/core/status_macros.h"
#include "stages/select/strategies/class_leverage.h"
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class Alevs final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .class_groups = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const ScoredRows scored = ScoreUnlabeledByLeverage(candidates);
    Selection selection;
    FULCRUM_ASSIGN_OR_RETURN(selection.picks, TopByScore(scored.rows, scored.scores, candidates.batch));
    AnnotateFromGroups(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeAlevs() {
  return std::make_unique<Alevs>();
}

}  // namespace fulcrum::select
