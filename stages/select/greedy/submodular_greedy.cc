#include "stages/select/greedy/submodular_greedy.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "stages/core/parallel.h"

namespace fulcrum::select {
namespace {

// Smaller loops finish before another thread could help.
constexpr std::size_t kPositionsPerBlock = 16384;
// Re-evaluating one candidate is a sequence of random accesses (microseconds); adding a whole row to all sums is
// sequential (nanoseconds per candidate). If more than this share of the group is re-evaluated per step, adding the row
// is faster.
constexpr double kLazyShare = 1.0 / 1000;

// After every candidate, whatever its gain.
constexpr LazyQueue::Candidate kNoCandidate = {.gain = std::numeric_limits<double>::quiet_NaN(),
                                               .row = std::numeric_limits<RowIndex>::max()};

// Kernels that may round to just below zero would let a gain rise again, and laziness rests on gains that fall.
double Similarity(double kernel_value) {
  return std::max(kernel_value, 0.0);
}

double SumOfLargest(std::vector<double> values, std::size_t count) {
  count = std::min(count, values.size());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(values.begin(), middle, values.end(), LargerFirst());
  return std::accumulate(values.begin(), middle, 0.0);
}

class GreedyRun {
 public:
  explicit GreedyRun(const GreedyProblem& problem)
      : problem_(problem), similarity_(problem.rows.size(), 0.0), summed_(problem.rows.size(), 0) {
    SortLabeledByRow();
    const std::size_t size = std::min(problem.batch, unlabeled_.size());
    const std::size_t capacity = labeled_.size() + size;
    factor_ = capacity > 0 ? problem.alpha / static_cast<double>(capacity) : 0.0;
    batch_ = size;
  }

  GreedyBatch Run() {
    AddLabeled();
    labeled_similarity_ = similarity_;
    first_bound_ = value_ + SumOfLargest(GainsOfUnlabeled(), batch_);
    LazyQueue queue(Candidates());
    while (result_.positions.size() < batch_ && LazinessPays(queue)) ChooseLazily(queue);
    const bool lazy = result_.positions.size() == batch_;
    if (!lazy) ChooseRestEagerly();
    result_.evaluations = queue.evaluations();
    result_.value = value_;
    result_.upper_bound = std::max(value_, std::min(first_bound_, TangentBound(lazy ? &queue : nullptr)));
    return std::move(result_);
  }

 private:
  void SortLabeledByRow() {
    std::vector<bool> is_labeled(problem_.rows.size(), false);
    labeled_.assign(problem_.labeled.begin(), problem_.labeled.end());
    std::sort(labeled_.begin(), labeled_.end(),
              [&](std::size_t a, std::size_t b) { return problem_.rows[a] < problem_.rows[b]; });
    for (const std::size_t position : labeled_) is_labeled[position] = true;
    for (std::size_t position = 0; position < is_labeled.size(); ++position) {
      if (!is_labeled[position]) unlabeled_.push_back(position);
    }
    open_.assign(is_labeled.size(), 0);
    for (const std::size_t position : unlabeled_) open_[position] = 1;
  }

  void AddLabeled() {
    ParallelForBlocks(similarity_.size(), kPositionsPerBlock, [&](std::size_t first, std::size_t count) {
      for (const std::size_t position : labeled_) AddRow(position, first, count);
    });
    for (std::size_t i = 0; i < labeled_.size(); ++i) {
      double pairs = 0;
      for (std::size_t j = 0; j < i; ++j) pairs += Similarity(problem_.kernel(labeled_[i], labeled_[j]));
      value_ += problem_.scores[labeled_[i]] + 1 - factor_ * pairs;
    }
  }

  void AddRow(std::size_t position, std::size_t first, std::size_t count) {
    const double* kernel_row = problem_.kernel.row(position).data() + first;
    double* sums = similarity_.data() + first;
    for (std::size_t i = 0; i < count; ++i) sums[i] += Similarity(kernel_row[i]);
  }

  // A fused operation, so that every computation of a gain rounds identically.
  double Gain(std::size_t position) const {
    return std::fma(-factor_, similarity_[position], problem_.scores[position] + 1);
  }

  double Evaluate(std::size_t position) {
    const auto kernel_row = problem_.kernel.row(position);
    double sum = similarity_[position];
    for (std::size_t i = summed_[position]; i < result_.positions.size(); ++i) {
      sum += Similarity(kernel_row[result_.positions[i]]);
    }
    similarity_[position] = sum;
    summed_[position] = static_cast<std::uint32_t>(result_.positions.size());
    return Gain(position);
  }

  std::vector<double> GainsOfUnlabeled() const {
    std::vector<double> gains;
    gains.reserve(unlabeled_.size());
    for (const std::size_t position : unlabeled_) gains.push_back(Gain(position));
    return gains;
  }

  std::vector<LazyQueue::Candidate> Candidates() const {
    std::vector<LazyQueue::Candidate> candidates;
    candidates.reserve(unlabeled_.size());
    for (const std::size_t position : unlabeled_) {
      candidates.push_back({.gain = Gain(position),
                            .row = problem_.rows[position],
                            .item = static_cast<std::uint32_t>(position),
                            .step = 0});
    }
    return candidates;
  }

  bool LazinessPays(const LazyQueue& queue) const {
    const auto steps = static_cast<double>(result_.positions.size() + 1);
    return static_cast<double>(queue.evaluations()) <= steps * kLazyShare * static_cast<double>(unlabeled_.size()) + 16;
  }

  void ChooseLazily(LazyQueue& queue) {
    ThrowIfStopRequested();
    const auto step = static_cast<std::uint32_t>(result_.positions.size());
    const auto best = queue.PopBest(step, [&](std::uint32_t position) { return Evaluate(position); });
    Choose(best.item, best.gain);
  }

  void ChooseRestEagerly() {
    CatchUpAll();
    std::optional<std::size_t> last;
    while (result_.positions.size() < batch_) {
      ThrowIfStopRequested();
      const LazyQueue::Candidate best = BestAfterAdding(last);
      Choose(best.item, best.gain);
      last = best.item;
    }
    if (last) AddRow(*last, 0, similarity_.size());
    std::fill(summed_.begin(), summed_.end(), static_cast<std::uint32_t>(batch_));
  }

  // Row by row like AddRow, but only for sums that do not include the pick yet: adding zero has no effect.
  void CatchUpAll() {
    constexpr std::size_t kPositionsInCache = 2048;
    ParallelForBlocks(similarity_.size(), kPositionsInCache, [&](std::size_t first, std::size_t count) {
      for (std::uint32_t step = 0; step < result_.positions.size(); ++step) {
        const double* kernel_row = problem_.kernel.row(result_.positions[step]).data();
        for (std::size_t i = first; i < first + count; ++i) {
          similarity_[i] += summed_[i] <= step ? Similarity(kernel_row[i]) : 0.0;
        }
      }
    });
  }

  LazyQueue::Candidate BestAfterAdding(std::optional<std::size_t> last) {
    std::vector<LazyQueue::Candidate> best_of_block(similarity_.size() / kPositionsPerBlock + 1, kNoCandidate);
    ParallelForBlocks(similarity_.size(), kPositionsPerBlock, [&](std::size_t first, std::size_t count) {
      if (last) AddRow(*last, first, count);
      best_of_block[first / kPositionsPerBlock] = BestOfBlock(first, count);
    });
    return *std::max_element(best_of_block.begin(), best_of_block.end(), LazyQueue::WorseThan);
  }

  LazyQueue::Candidate BestOfBlock(std::size_t first, std::size_t count) const {
    LazyQueue::Candidate best = kNoCandidate;
    for (std::size_t position = first; position < first + count; ++position) {
      if (!open_[position]) continue;
      const LazyQueue::Candidate candidate = {
          .gain = Gain(position), .row = problem_.rows[position], .item = static_cast<std::uint32_t>(position)};
      if (LazyQueue::WorseThan(best, candidate)) best = candidate;
    }
    return best;
  }

  void Choose(std::size_t position, double gain) {
    pairs_in_batch_ += similarity_[position] - labeled_similarity_[position];
    value_ += gain;
    open_[position] = 0;
    result_.positions.push_back(position);
    result_.gains.push_back(gain);
  }

  // Without a queue every gain is up to date. With a queue, stale gains are used after enough re-evaluations: they can
  // only loosen the bound.
  double TangentBound(LazyQueue* queue) {
    double constant =
        value_ - std::accumulate(result_.gains.begin(), result_.gains.end(), 0.0) + factor_ * pairs_in_batch_;
    std::vector<double> terms;
    for (const std::size_t position : result_.positions) {
      const double own = 0.5 * factor_ * Similarity(problem_.kernel(position, position));
      constant += own;
      terms.push_back(Evaluate(position) + own);
    }
    const double own_at_most = 0.5 * factor_;
    if (queue == nullptr) {
      for (const std::size_t position : unlabeled_) {
        if (open_[position]) terms.push_back(Gain(position) + own_at_most);
      }
    } else {
      const std::size_t affordable = queue->evaluations() + 4 * batch_;
      const auto step = static_cast<std::uint32_t>(result_.positions.size());
      for (std::size_t i = 0; i < batch_ && !queue->empty(); ++i) {
        const auto candidate = queue->evaluations() < affordable
                                   ? queue->PopBest(step, [&](std::uint32_t item) { return Evaluate(item); })
                                   : queue->PopBound();
        terms.push_back(candidate.gain + own_at_most);
      }
    }
    return constant + SumOfLargest(std::move(terms), batch_);
  }

  const GreedyProblem& problem_;
  std::vector<std::size_t> labeled_;    // by row
  std::vector<std::size_t> unlabeled_;  // as positions, ascending
  std::vector<std::uint8_t> open_;      // by position: unlabeled and not selected
  std::vector<double> similarity_;      // by position: sum of K to the labeled and the first summed_ picks
  std::vector<std::uint32_t> summed_;   // by position
  std::vector<double> labeled_similarity_;
  std::size_t batch_ = 0;
  double factor_ = 0;  // alpha / M
  double value_ = 0;
  double first_bound_ = 0;
  double pairs_in_batch_ = 0;
  GreedyBatch result_;
};

}  // namespace

GreedyBatch MaximizeGreedily(const GreedyProblem& problem) {
  assert(problem.scores.size() == problem.rows.size());
  assert(problem.kernel.rows() == problem.rows.size() && problem.kernel.cols() == problem.rows.size());
  return GreedyRun(problem).Run();
}

}  // namespace fulcrum::select
