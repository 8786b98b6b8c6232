#include "stages/select/ted.h"

#include <algorithm>

#include "stages/core/status_macros.h"
#include "stages/select/experimental_design.h"
#include "stages/select/pool_kernel.h"

namespace fulcrum::select {
namespace {

constexpr double kMu = 0.1;

class Ted final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool ignores_answers() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    RowList open = UnlabeledRows(candidates.labels);
    const std::size_t batch = std::min(candidates.batch, open.size());
    const PoolKernel kernel(candidates.classifier_kernel, *candidates.features);
    FULCRUM_ASSIGN_OR_RETURN(ExperimentalDesign design,
                             ExperimentalDesign::Start(kernel, kMu, LabeledRows(candidates.labels), batch - 1));
    Selection selection;
    while (selection.picks.size() < batch) {
      // The first of equals is the smaller row.
      const auto best = std::ranges::max_element(open, {}, [&](RowIndex row) { return design.Score(row); });
      selection.picks.push_back({.row = *best, .gain = design.Score(*best)});
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
