// Query by committee (McCallum, Nigam 1998) with bagging: the examples on which classifiers trained on different
// samples of the labels disagree most. A member is regularised least squares with the classifier's kernel, one function
// per class with targets +1 and -1, on a bootstrap sample of the labels; a label drawn w times counts w times,
//   f = k_l' (K_ll + noise W^-1)^-1 y.
// Its class probabilities are p_m = softmax(2 f), and the disagreement is the mean Kullback-Leibler divergence from the
// committee's mean, 1/M sum_m KL(p_m || p): unlike a count of votes it has no ties. In a batch: the b largest.
// One pass over the pool in blocks of rows; the seed and the number of queries so far decide the samples.
#include <algorithm>
#include <cmath>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/blas.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kMembers = 16;
constexpr double kNoise = 0.1;
constexpr std::size_t kRowsPerBlock = 512;

/// How often each label is in a bootstrap sample.
std::vector<std::size_t> Bootstrap(std::size_t labels, Random& random) {
  std::vector<std::size_t> times(labels, 0);
  for (std::size_t i = 0; i < labels; ++i) ++times[random.Below(labels)];
  return times;
}

class Committee final : public Strategy {
 public:
  Requirements requirements() const override { return {}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    const RowList labeled = LabeledRows(candidates.labels), rows = UnlabeledRows(candidates.labels);
    FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> members, Train(candidates, labeled));
    std::vector<double> scores(rows.size());
    ParallelForBlocks(rows.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
      Matrix<double> values(count, labeled.size()), decisions(count, members.rows());
      kernel::ComputeKernelBlock(candidates.classifier_kernel, *candidates.features,
                                 std::span(rows).subspan(first, count), labeled, values.view());
      linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1.0, values.view(), members.view(), 0.0,
                   decisions.view());
      for (std::size_t i = 0; i < count; ++i) scores[first + i] = Disagreement(decisions.row(i));
    });
    Selection selection;
    FULCRUM_ASSIGN_OR_RETURN(selection.picks, TopByScore(rows, scores, candidates.batch));
    AnnotateClasses(candidates, selection.picks);
    return selection;
  }

 private:
  /// One row of coefficients per member and class, the classes of a member next to each other.
  static absl::StatusOr<Matrix<double>> Train(const Candidates& candidates, std::span<const RowIndex> labeled) {
    Random random = Random::Fork(candidates.seed, candidates.queries_so_far);
    Matrix<double> gram(labeled.size(), labeled.size());
    kernel::ComputeKernelSymmetric(candidates.classifier_kernel, *candidates.features, labeled, gram.view());
    Matrix<double> members = Matrix<double>::Zero(kMembers * candidates.class_count, labeled.size());
    for (std::size_t m = 0; m < kMembers; ++m) {
      ThrowIfStopRequested();
      const std::vector<std::size_t> times = Bootstrap(labeled.size(), random);
      std::vector<std::size_t> drawn;
      for (std::size_t i = 0; i < times.size(); ++i) {
        if (times[i] > 0) drawn.push_back(i);
      }
      Matrix<double> system(drawn.size(), drawn.size()), targets(candidates.class_count, drawn.size());
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        for (std::size_t j = 0; j < drawn.size(); ++j) system(i, j) = gram(drawn[i], drawn[j]);
        system(i, i) += kNoise / static_cast<double>(times[drawn[i]]);
        for (std::size_t c = 0; c < candidates.class_count; ++c) {
          targets(c, i) = candidates.labels[labeled[drawn[i]]] == static_cast<ClassIndex>(c) ? 1 : -1;
        }
      }
      FULCRUM_ASSIGN_OR_RETURN(const Matrix<double> lower, linalg::FactorCholesky(std::move(system)));
      linalg::SolveLowerForRows(lower.view(), targets.view());
      linalg::SolveLowerTransposedForRows(lower.view(), targets.view());
      for (std::size_t c = 0; c < candidates.class_count; ++c) {
        for (std::size_t i = 0; i < drawn.size(); ++i) {
          members(m * candidates.class_count + c, drawn[i]) = targets(c, i);
        }
      }
    }
    return members;
  }

  static double Disagreement(std::span<double> decisions) {
    const std::size_t classes = decisions.size() / kMembers;
    std::vector<double> mean(classes, 0.0);
    double negative_entropies = 0;
    for (std::size_t m = 0; m < kMembers; ++m) {
      const std::span<double> own = decisions.subspan(m * classes, classes);
      const double largest = *std::ranges::max_element(own);
      double sum = 0;
      for (double& value : own) sum += value = std::exp(2 * (value - largest));
      for (std::size_t c = 0; c < classes; ++c) {
        const double p = own[c] / sum;
        mean[c] += p / kMembers;
        if (p > 0) negative_entropies += p * std::log(p) / kMembers;
      }
    }
    // The mean divergence is the entropy of the mean less the mean of the entropies.
    double entropy = 0;
    for (const double p : mean) entropy -= p > 0 ? p * std::log(p) : 0;
    return entropy + negative_entropies;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeCommittee() {
  return std::make_unique<Committee>();
}

}  // namespace fulcrum::select
