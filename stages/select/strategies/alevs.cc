// The highest leverage scores: within the predicted classes (ALEVS), and over the whole pool (lev-on-all, top-lev).
#include "stages/core/status_macros.h"
#include "stages/select/strategies/strategy_parts.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

/// ALEVS, paper section "Proposed Sequential Active Learning Method": the unlabeled example with the largest leverage
/// score, scaled by m/k inside its class so that classes compare. In a batch: the b largest.
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

/// Leverage over the whole pool, computed without classes: highest unlabeled first. One query a round in the paper,
/// which calls the batches of it top-lev.
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

std::unique_ptr<Strategy> MakeAlevs() {
  return std::make_unique<Alevs>();
}

std::unique_ptr<Strategy> MakeLevOnAll() {
  return std::make_unique<LevOnAll>();
}

std::unique_ptr<Strategy> MakeTopLev() {
  return MakeLevOnAll();
}

}  // namespace fulcrum::select
