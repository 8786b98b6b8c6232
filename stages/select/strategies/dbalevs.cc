// DBALEVS, paper section "Proposed Batch-Mode Active Learning Method": per class, the batch that maximises leverage
// minus similarity, within itself and to the labeled examples.
#include "stages/select/diverse_batch.h"
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

class Dbalevs final : public Strategy {
 public:
  Requirements requirements() const override {
    return {.predictions = true, .class_groups = true, .bounds_suffice = true};
  }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectDiverseBatch(candidates);
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeDbalevs() {
  return std::make_unique<Dbalevs>();
}

}  // namespace fulcrum::select
