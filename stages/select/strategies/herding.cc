// Strategies that cover the pool (submodular_greedy.h): MaxHerding, with local distances, and Uncertainty Herding as
// published. The default strategy, adaptive_herding.cc, sets both width and weights by itself.
#include <algorithm>
#include <cmath>

#include "stages/kernel/kernel_tiles.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

/// MaxHerding (arXiv 2407.12212): the examples that cover most of the pool, given what is labeled
/// (submodular_greedy.h). It needs no classifier and no label, so it is also the first batch of every strategy that
/// does. The width is one at which half of all pairs of rows have a similarity below exp(-2): width^2 is half the
/// median of their squared distances. These are local (submodular_greedy.h), so that regions in which rows are far
/// apart are covered too. Wider kernels pick the middle of the pool again and again, narrower ones single rows.
class Herding final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }
  bool ignores_answers() const override { return true; }
  bool needs_labels() const override { return false; }
  bool weighs_costs() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const PoolCover cover(candidates, Distance::kLocal);
    const double width = std::sqrt(cover.MedianSquared() / 2);
    return cover.Select(width, std::vector<double>(cover.references().size(), 1.0));
  }
};

// Below it two rows are copies up to rounding.
constexpr double kSmallestDistance = 1e-6;

double Uncertainty(std::span<const double> probabilities) {
  double largest = 0, second = 0;
  for (const double p : probabilities) {
    if (std::isnan(p)) return p;
    second = std::max(second, std::min(p, largest));
    largest = std::max(largest, p);
  }
  return 1 - (largest - second);
}

double SmallestDistance(const kernel::Features& features, std::span<const RowIndex> labeled) {
  double smallest = 1;
  Matrix<double> dots(1, labeled.size());
  for (const RowIndex& row : labeled) {
    kernel::ComputeKernelBlock({.type = kernel::KernelType::kLinear}, features, std::span(&row, 1), labeled,
                               dots.view());
    const std::span<const double> norms = features.squared_norms();
    for (std::size_t j = 0; j < labeled.size(); ++j) {
      const double product = std::sqrt(norms[row] * norms[labeled[j]]);
      const double distance = product > 0 ? std::sqrt(std::max(2 - 2 * dots(0, j) / product, 0.0)) : 0;
      if (distance > kSmallestDistance) smallest = std::min(smallest, distance);
    }
  }
  return smallest;
}

/// Uncertainty Herding (arXiv 2412.20644), as published: cover the pool (submodular_greedy.h) with rows of length one,
/// similarities exp(-(d / delta)^2) and the uncertainty of each row as its weight,
///   u_i = 1 - (p_i1 - p_i2), the two largest class probabilities,
///   delta = 1 before the first label, then the smallest distance above 0 between two labeled rows, at most 1.
/// Instead of a temperature the probabilities are those of the classifier, which are calibrated. A pool of more rows
/// than SampleReferences keeps is covered by a sample of it; all rows are candidates.
class UncertaintyHerding final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .probabilities = true}; }
  bool weighs_costs() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const PoolCover cover(candidates, Distance::kAngular);
    std::vector<double> weights;
    for (const RowIndex row : cover.references()) weights.push_back(Uncertainty(candidates.probabilities.row(row)));
    return cover.Select(SmallestDistance(*candidates.features, cover.labeled()), weights);
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeHerding() {
  return std::make_unique<Herding>();
}

std::unique_ptr<Strategy> MakeUncertaintyHerding() {
  return std::make_unique<UncertaintyHerding>();
}

}  // namespace fulcrum::select
