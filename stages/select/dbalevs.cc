#include "stages/select/dbalevs.h"

#include "stages/select/diverse_batch.h"

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
