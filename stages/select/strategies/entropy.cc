// The examples whose class probabilities have the largest entropy, -sum_c p_c log p_c. In a batch: the b largest.
#include <cmath>

#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

double EntropyOf(std::span<const double> probabilities) {
  double entropy = 0;
  for (const double p : probabilities) entropy -= p == 0 ? 0 : p * std::log(p);
  return entropy;
}

class Entropy final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .probabilities = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return SelectTopByScore(candidates, [&](RowIndex row) { return EntropyOf(candidates.probabilities.row(row)); });
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeEntropy() {
  return std::make_unique<Entropy>();
}

}  // namespace fulcrum::select
