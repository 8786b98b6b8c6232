#include "stages/select/uncertainty.h"

namespace fulcrum::select {
namespace {

class Uncertainty final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList rows = UnlabeledRows(candidates.labels);
    std::vector<double> scores;
    scores.reserve(rows.size());
    for (const RowIndex row : rows) scores.push_back(1 - candidates.confidence[row]);
    Selection selection;
    selection.picks = TopByScore(rows, scores, candidates.batch);
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeUncertainty() {
  return std::make_unique<Uncertainty>();
}

}  // namespace fulcrum::select
