// The default: Uncertainty Herding (arXiv 2412.20644) with a width and an uncertainty that need no tuning. Every pick
// covers the most of what is in doubt and not yet covered (submodular_greedy.h),
//   argmax_x sum_r u_r max(0, s(x, r) - m_r),   s(x, z) = exp(-|x - z|^2 / (a(x) a(z) width^2)).
// - Distances are local: a(x) is how far x is from the rows around it, so that a class that is spread out around
// another
//   one is covered as well as the one in the middle.
// - The width is the one at which the labeled examples cover half of the pool, mean_r m_r = 1/2. A few labels cover it
//   with wide kernels, and every pick speaks for a large part of the pool; as labels become many the kernels become
//   narrow, and each pick speaks for its own neighbourhood only. So the strategy goes from covering to refining by
//   itself, whatever the number of classes, the dimension and the scale of the features.
// - The doubt about a row is u = q^t, q the share of the pool with a larger margin (decision value), t = 2 log2 of the
//   labels per class. With one label per class nothing is known about the border and all rows count alike; with every
//   doubling of the labels the doubt narrows to it. Ranks do not depend on the scale of the margins, and need no
//   probabilities, which a few labels cannot calibrate.
// If the predictions are the user's own, there are no decision values; the margins are then those of least squares with
// the classifier's kernel on the labels (posterior.h). docs/strategies.md has how it compares.
#include <algorithm>
#include <cmath>
#include <limits>

#include "stages/core/status_macros.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/posterior/posterior.h"
#include "stages/select/strategies/strategy_parts.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr double kCoverage = 0.5;
constexpr double kSharpness = 2;
constexpr double kNoise = 0.1;

/// The width at which the mean of exp(-d^2 / width^2) is kCoverage, by bisection of its logarithm. Copies of labeled
/// rows are covered at any width; if they are more than that share, only the other rows count.
double WidthForCoverage(std::span<const double> nearest) {
  const double largest = *std::ranges::max_element(nearest);
  std::vector<double> squared;
  std::ranges::copy_if(nearest, std::back_inserter(squared), [&](double d) { return d > 1e-12 * largest; });
  if (squared.empty()) return 1;
  const auto copies = static_cast<double>(nearest.size() - squared.size());
  const auto covered = [&](double width) {
    double sum = 0;
    for (const double d : squared) sum += std::exp(-d / (width * width));
    return sum;
  };
  const double all = static_cast<double>(nearest.size());
  const double wanted =
      copies < kCoverage * all ? kCoverage * all - copies : kCoverage * static_cast<double>(squared.size());
  double low = 1e-3 * std::sqrt(*std::ranges::min_element(squared)), high = 1e3 * std::sqrt(largest);
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    (covered(middle) < wanted ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

absl::StatusOr<std::vector<double>> MarginsOf(const Candidates& candidates, std::span<const RowIndex> labeled,
                                              std::span<const RowIndex> rows) {
  if (candidates.margin.empty()) {
    std::vector<ClassIndex> labels;
    for (const RowIndex row : labeled) labels.push_back(candidates.labels[row]);
    return MarginsOfLeastSquares(*candidates.features, candidates.classifier_kernel, labeled, labels,
                                 candidates.class_count, rows);
  }
  std::vector<double> margins;
  for (const RowIndex row : rows) margins.push_back(candidates.margin[row]);
  return margins;
}

/// u_r. Ties share the mean of their ranks, so that equal margins mean equal doubts.
std::vector<double> Doubts(std::span<const double> margins, double labels_per_class) {
  const double sharpness = kSharpness * std::log2(std::max(labels_per_class, 1.0));
  std::vector<double> doubts = ScaledRanks(margins);
  for (double& doubt : doubts) doubt = std::pow(1 - doubt, sharpness);
  return doubts;
}

}  // namespace

absl::StatusOr<std::vector<double>> MarginsOfLeastSquares(const kernel::Features& features,
                                                          const kernel::KernelFunction& kernel,
                                                          std::span<const RowIndex> labeled,
                                                          std::span<const ClassIndex> labels, std::size_t class_count,
                                                          std::span<const RowIndex> rows) {
  Matrix<double> targets(class_count, labeled.size());
  for (std::size_t c = 0; c < targets.rows(); ++c) {
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      targets(c, i) = labels[i] == static_cast<ClassIndex>(c) ? 1 : -1;
    }
  }
  FULCRUM_ASSIGN_OR_RETURN(const Posterior posterior, Posterior::Compute({.features = &features,
                                                                          .kernel = kernel,
                                                                          .labeled = labeled,
                                                                          .candidates = rows,
                                                                          .noise = kNoise,
                                                                          .targets = targets.view()}));
  std::vector<double> margins;
  for (std::size_t i = 0; i < rows.size(); ++i) margins.push_back(MarginOf(posterior, i));
  return margins;
}

CoverWeights AdaptiveCover(std::span<const double> nearest, std::span<const double> margins, double labels_per_class) {
  return {WidthForCoverage(nearest), Doubts(margins, labels_per_class)};
}

namespace {

class AdaptiveHerding final : public Strategy {
 public:
  Requirements requirements() const override {
    return {.predictions = true, .margin = true, .given_predictions_suffice = true};
  }
  bool weighs_costs() const override { return true; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const PoolCover cover(candidates, Distance::kLocal);
    if (cover.labeled().empty()) return MakeHerding()->Select(candidates);
    FULCRUM_RETURN_IF_ERROR(CheckMargins(candidates));
    FULCRUM_RETURN_IF_ERROR(CheckScores("distance", cover.references(), cover.nearest()));
    FULCRUM_ASSIGN_OR_RETURN(const std::vector<double> margins,
                             MarginsOf(candidates, cover.labeled(), cover.references()));
    const double labels_per_class =
        static_cast<double>(cover.labeled().size()) / static_cast<double>(candidates.class_count);
    const CoverWeights adaptive = AdaptiveCover(cover.nearest(), margins, labels_per_class);
    return cover.Select(adaptive.width, adaptive.weights);
  }

 private:
  /// Of all rows, not only of the references: which rows these are must not decide whether there is an error.
  static absl::Status CheckMargins(const Candidates& candidates) {
    if (candidates.margin.empty()) return absl::OkStatus();
    const RowList rows = UnlabeledRows(candidates.labels);
    std::vector<double> margins;
    margins.reserve(rows.size());
    for (const RowIndex row : rows) margins.push_back(candidates.margin[row]);
    return CheckScores("margin", rows, margins);
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeAdaptiveHerding() {
  return std::make_unique<AdaptiveHerding>();
}

}  // namespace fulcrum::select
