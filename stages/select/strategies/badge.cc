// BADGE (Ash et al. 2020): k-means++ on gradient embeddings. The gradient of the loss of a linear layer, if the
// predicted class were the true one, is g(x) = (p(x) - e_y*) (x) phi(x): large if the prediction is in doubt, and in
// the direction of the features. phi are the features of the classifier's kernel, so that no embedding is formed:
//   |g(x) - g(z)|^2 = |q_x|^2 k(x,x) + |q_z|^2 k(z,z) - 2 (q_x . q_z) k(x,z),   q = p - e_y*.
// The first pick has the longest embedding; each further one is drawn with a probability proportional to the squared
// distance to the nearest pick. One pass over the pool per pick, in blocks; two numbers are kept per row. The draws
// depend on the seed and the number of queries so far, as in `random`.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "stages/core/parallel.h"
#include "stages/core/random.h"
#include "stages/core/status_macros.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

constexpr std::size_t kRowsPerBlock = 1024;

class BadgeRun {
 public:
  explicit BadgeRun(const Candidates& candidates)
      : candidates_(candidates), rows_(UnlabeledRows(candidates.labels)), lengths_(rows_.size()) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const double norm = candidates.features->squared_norms()[rows_[i]];
      lengths_[i] = Product(rows_[i], rows_[i]) * kernel::KernelDiagonal(candidates.classifier_kernel, norm);
    }
    nearest_.assign(rows_.size(), std::numeric_limits<double>::infinity());
  }

  absl::StatusOr<Selection> Choose() {
    FULCRUM_RETURN_IF_ERROR(CheckScores("length of the gradient", rows_, lengths_));
    Random random = Random::Fork(candidates_.seed, candidates_.queries_so_far);
    Selection selection;
    const std::size_t batch = std::min(candidates_.batch, rows_.size());
    std::size_t next = LargestOf(lengths_);
    while (true) {
      const double gain = selection.picks.empty() ? lengths_[next] : nearest_[next];
      selection.picks.push_back({.row = rows_[next], .gain = gain});
      if (selection.picks.size() == batch) break;
      Compare(next);
      next = Draw(random);
    }
    AnnotateClasses(candidates_, selection.picks);
    return selection;
  }

 private:
  /// q_x . q_z
  double Product(RowIndex x, RowIndex z) const {
    const std::span<const double> a = candidates_.probabilities.row(x), b = candidates_.probabilities.row(z);
    const auto own_a = static_cast<std::size_t>(candidates_.predicted[x]);
    const auto own_b = static_cast<std::size_t>(candidates_.predicted[z]);
    double sum = 0;
    for (std::size_t c = 0; c < a.size(); ++c) sum += (a[c] - (c == own_a ? 1 : 0)) * (b[c] - (c == own_b ? 1 : 0));
    return sum;
  }

  /// Shortens the distances to the nearest pick. A picked row has none, not even by rounding.
  void Compare(std::size_t pick) {
    const RowIndex picked = rows_[pick];
    ParallelForBlocks(rows_.size(), kRowsPerBlock, [&](std::size_t first, std::size_t count) {
      Matrix<double> column(count, 1);
      kernel::ComputeKernelBlock(candidates_.classifier_kernel, *candidates_.features,
                                 std::span(rows_).subspan(first, count), std::span(&picked, 1), column.view());
      for (std::size_t i = first; i < first + count; ++i) {
        const double squared = lengths_[i] + lengths_[pick] - 2 * Product(rows_[i], picked) * column(i - first, 0);
        nearest_[i] = std::min(nearest_[i], std::max(squared, 0.0));
      }
    });
    nearest_[pick] = -1;
  }

  /// Summed in the order of rows, so that the draw does not depend on the number of threads.
  std::size_t Draw(Random& random) const {
    double total = 0;
    for (const double squared : nearest_) total += std::max(squared, 0.0);
    const double target = random.Uniform() * total;
    double sum = 0;
    for (std::size_t i = 0; i < nearest_.size(); ++i) {
      sum += std::max(nearest_[i], 0.0);
      if (nearest_[i] > 0 && sum > target) return i;
    }
    // All that is left coincides with a pick, or rounding: the first row that is not picked.
    return LargestOf(nearest_);
  }

  static std::size_t LargestOf(std::span<const double> values) {
    return static_cast<std::size_t>(std::ranges::min_element(values, LargerFirst()) - values.begin());
  }

  const Candidates& candidates_;
  const RowList rows_;
  std::vector<double> lengths_;  // |g|^2
  std::vector<double> nearest_;  // squared distance to the nearest pick; -1: picked
};

class Badge final : public Strategy {
 public:
  Requirements requirements() const override { return {.predictions = true, .probabilities = true}; }

  absl::StatusOr<Selection> Select(const Candidates& candidates) const override {
    return BadgeRun(candidates).Choose();
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeBadge() {
  return std::make_unique<Badge>();
}

}  // namespace fulcrum::select
