#include "stages/select/most_confident.h"

namespace fulcrum::select {
namespace {

class MostConfident final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .confidence = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList rows = UnlabeledRows(candidates.labels);
    std::vector<double> scores;
    scores.reserve(rows.size());
    for (const RowIndex row : rows) scores.push_back(candidates.confidence[row]);
    Selection selection;
    selection.picks = TopByScore(rows, scores, candidates.batch);
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeMostConfident() {
  return std::make_unique<MostConfident>();
}

}  // namespace fulcrum::select
