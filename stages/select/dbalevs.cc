#include "stages/select/dbalevs.h"

#include "stages/select/class_leverage.h"
#include "stages/select/diverse_batch.h"

namespace fulcrum::select {
namespace {

class Dbalevs final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .class_groups = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    std::vector<std::vector<double>> scores;
    for (const Group& group : candidates.groups) scores.push_back(ScaledLeverage(group, candidates.scale));
    return SelectDiverseBatch(candidates, scores);
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeDbalevs() {
  return std::make_unique<Dbalevs>();
}

}  // namespace fulcrum::select
