// Leverage over the whole pool, computed without classes: highest unlabeled first. One query a round in the paper.
#include "stages/core/status_macros.h"
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class LevOnAll final : public Strategy {
 public:
  Requirements requirements() const override { return {.pool_leverage = true}; }
  bool needs_labels() const override { return false; }
  bool ignores_answers() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList rows = UnlabeledRows(candidates.labels);
    std::vector<double> scores;
    scores.reserve(rows.size());
    for (const RowIndex row : rows) scores.push_back(candidates.pool_leverage[row]);
    Selection selection;
    FULCRUM_ASSIGN_OR_RETURN(selection.picks, TopByScore(rows, scores, candidates.batch));
    for (Pick& pick : selection.picks) pick.leverage = pick.gain;
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeLevOnAll() {
  return std::make_unique<LevOnAll>();
}

}  // namespace fulcrum::select
