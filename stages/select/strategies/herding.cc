// MaxHerding (arXiv 2407.12212): the examples that cover most of the pool, given what is labeled (coverage.h). It needs
// no classifier and no label, so it is also the first batch of every strategy that does.
// The width is one at which half of all pairs of rows have a similarity below exp(-2): width^2 is half the median of
// their squared distances. Wider kernels pick the middle of the pool again and again, narrower ones single rows.
#include <algorithm>
#include <cmath>

#include "stages/kernel/kernel_tiles.h"
#include "stages/select/greedy/coverage.h"
#include "stages/select/strategies/strategies.h"

namespace fulcrum::select {
namespace {

// Pairs of so many references are enough for a median.
constexpr std::size_t kRowsForMedian = 256;

double MedianSquaredDistance(const kernel::Features& features, std::span<const RowIndex> references) {
  RowList some;
  const std::size_t step = (references.size() + kRowsForMedian - 1) / kRowsForMedian;
  for (std::size_t i = 0; i < references.size(); i += step) some.push_back(references[i]);
  Matrix<double> dots(some.size(), some.size());
  kernel::ComputeKernelSymmetric({.type = kernel::KernelType::kLinear}, features, some, dots.view());
  std::vector<double> distances;
  for (std::size_t i = 0; i < some.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double squared = dots(i, i) + dots(j, j) - 2 * dots(i, j);
      // Copies say nothing about the scale.
      if (squared > 1e-12 * (dots(i, i) + dots(j, j))) distances.push_back(squared);
    }
  }
  if (distances.empty()) return 1;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::ranges::nth_element(distances, middle);
  return *middle;
}

class Herding final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool ignores_answers() const override { return true; }
  bool needs_labels() const override { return false; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const PoolCover cover(candidates, Distance::kEuclidean);
    const double width = std::sqrt(MedianSquaredDistance(*candidates.features, cover.references()) / 2);
    return cover.Select(width, std::vector<double>(cover.references().size(), 1.0));
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeHerding() {
  return std::make_unique<Herding>();
}

}  // namespace fulcrum::select
