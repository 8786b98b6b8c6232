// Transductive experimental design (Yu, Bi, Tresp 2006), sequential. METHOD section 2:
//   take the i that maximises |K(:,i)|^2 / (K(i,i) + mu), then K <- K - K(:,i) K(i,:) / (K(i,i) + mu).
// K is the classifier's kernel over the whole pool, because the design is for the classifier. The labeled examples are
// deflated first, so rounds of one query and one batch give the same picks; mu is 0.1.
#include <algorithm>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/select/posterior/posterior.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr double kMu = 0.1;

class Ted final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool needs_labels() const override { return false; }
  bool ignores_answers() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    RowList open = UnlabeledRows(candidates.labels);
    const std::size_t batch = std::min(candidates.batch, open.size());
    const PoolKernel kernel(candidates.classifier_kernel, *candidates.features);
    FULCRUM_ASSIGN_OR_RETURN(ExperimentalDesign design,
                             ExperimentalDesign::Start(kernel, kMu, LabeledRows(candidates.labels), batch - 1));
    Selection selection;
    while (selection.picks.size() < batch) {
      ThrowIfStopRequested();
      // The first of equals is the smaller row.
      const auto best = std::ranges::min_element(open, LargerFirst(), [&](RowIndex row) { return design.Score(row); });
      const double score = design.Score(*best);
      FULCRUM_RETURN_IF_ERROR(CheckScores("score", std::span(&*best, 1), std::span(&score, 1)));
      selection.picks.push_back({.row = *best, .gain = score});
      if (selection.picks.size() < batch) design.Take(*best);
      open.erase(best);
    }
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeTed() {
  return std::make_unique<Ted>();
}

}  // namespace fulcrum::select
