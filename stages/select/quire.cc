#include "stages/select/quire.h"

#include <algorithm>
#include <cmath>

#include "stages/core/status_macros.h"
#include "stages/select/posterior.h"

namespace fulcrum::select {
namespace {

constexpr double kLambda = 1;

/// One row of +1 and -1 for two classes, one against rest; a row a class for more.
Matrix<double> Targets(const Candidates& candidates, std::span<const RowIndex> labeled) {
  Matrix<double> targets(candidates.class_count == 2 ? 1 : candidates.class_count, labeled.size());
  for (std::size_t c = 0; c < targets.rows(); ++c) {
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      targets(c, i) = candidates.labels[labeled[i]] == static_cast<ClassIndex>(c) ? 1 : -1;
    }
  }
  return targets;
}

/// The part of the criterion that a batch does not change: 1 + 2 |f_s|, summed over the targets.
std::vector<double> Confidences(ConstMatrixView means) {
  std::vector<double> sums(means.rows());
  for (std::size_t i = 0; i < means.rows(); ++i) {
    for (const double mean : means.row(i)) sums[i] += 1 + 2 * std::abs(mean);
  }
  return sums;
}

/// The smallest criterion among those not taken, as the largest inverse; rows ascend, so the first of equals wins.
std::size_t BestOf(std::span<const double> variances, const std::vector<double>& confidences,
                   const std::vector<bool>& taken) {
  std::size_t best = taken.size();
  double best_score = 0;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const double score = (variances[i] + kLambda) / confidences[i];
    if (taken[i] || (best < taken.size() && score <= best_score)) continue;
    best = i;
    best_score = score;
  }
  return best;
}

class Quire final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList rows = UnlabeledRows(candidates.labels);
    const RowList labeled = LabeledRows(candidates.labels);
    const Matrix<double> targets = Targets(candidates, labeled);
    const std::size_t batch = std::min(candidates.batch, rows.size());
    FULCRUM_ASSIGN_OR_RETURN(Posterior posterior, Posterior::Compute({.features = candidates.features,
                                                                      .kernel = candidates.classifier_kernel,
                                                                      .labeled = labeled,
                                                                      .candidates = rows,
                                                                      .noise = kLambda,
                                                                      .targets = targets.view(),
                                                                      .updates = batch - 1}));
    const std::vector<double> confidences = Confidences(posterior.means());
    std::vector<bool> taken(rows.size(), false);
    Selection selection;
    while (selection.picks.size() < batch) {
      const std::size_t best = BestOf(posterior.variances(), confidences, taken);
      taken[best] = true;
      selection.picks.push_back(
          {.row = rows[best], .gain = (posterior.variances()[best] + kLambda) / confidences[best]});
      if (selection.picks.size() < batch) posterior.Label(best);
    }
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeQuire() {
  return std::make_unique<Quire>();
}

}  // namespace fulcrum::select
