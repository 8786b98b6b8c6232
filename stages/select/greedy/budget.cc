#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

// What costs less is taken first anyway.
constexpr double kLeastCost = 1e-9;
constexpr std::size_t kPositionsPerBlock = 16384;

struct Found {
  std::size_t position = 0;
  double priority = 0;
  bool is_there = false;
};

class BudgetedRun {
 public:
  explicit BudgetedRun(const BudgetedProblem& problem)
      : problem_(problem), open_(problem.rows.size(), 1), column_(problem.rows.size()) {
    for (const std::size_t position : problem.labeled) open_[position] = 0;
    const auto unlabeled = static_cast<std::size_t>(std::ranges::count(open_, 1));
    batch_ = std::min(problem.batch, unlabeled);
    const std::size_t capacity = problem.labeled.size() + batch_;
    factor_ = capacity > 0 ? problem.alpha / static_cast<double>(capacity) : 0;
  }

  absl::StatusOr<GreedyBatch> Run() {
    FULCRUM_RETURN_IF_ERROR(AddLabeled());
    const double first_bound = base_ + Worth([&](std::size_t position) { return Gain(position, labeled_sums_); });
    GreedyBatch best;
    double bound = first_bound;
    bool any = false;
    for (const BuyingOrder order : kBuyingOrders) {
      FULCRUM_ASSIGN_OR_RETURN(GreedyBatch batch, Buy(order, bound));
      if (!any || LargerFirst()(batch.value, best.value)) best = std::move(batch);
      any = true;
    }
    best.upper_bound = std::max(best.value, bound);
    return best;
  }

 private:
  absl::Status AddLabeled() {
    labeled_sums_.assign(problem_.rows.size(), 0.0);
    std::vector<std::size_t> labeled(problem_.labeled.begin(), problem_.labeled.end());
    std::ranges::sort(labeled, {}, [&](std::size_t position) { return problem_.rows[position]; });
    for (const std::size_t position : labeled) {
      base_ += Gain(position, labeled_sums_);
      FULCRUM_RETURN_IF_ERROR(AddColumn(position, labeled_sums_));
    }
    return absl::OkStatus();
  }

  absl::Status AddColumn(std::size_t position, std::vector<double>& sums) {
    ThrowIfStopRequested();
    FULCRUM_RETURN_IF_ERROR(problem_.column(position, column_));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += std::max(column_[i], 0.0);
    return absl::OkStatus();
  }

  double Gain(std::size_t position, std::span<const double> sums) const {
    return std::fma(-factor_, sums[position], problem_.scores[position] + 1);
  }

  template <typename GainOf>
  double Worth(const GainOf& gain_of) const {
    std::vector<double> gains, costs;
    std::vector<bool> labeled(problem_.rows.size(), false);
    for (const std::size_t position : problem_.labeled) labeled[position] = true;
    for (std::size_t position = 0; position < labeled.size(); ++position) {
      if (labeled[position]) continue;
      gains.push_back(gain_of(position));
      costs.push_back(problem_.costs[position]);
    }
    return MostWorth(gains, costs, batch_, problem_.budget);
  }

  /// Lowers the bound if the tangent at this batch is below it.
  absl::StatusOr<GreedyBatch> Buy(BuyingOrder order, double& bound) {
    GreedyBatch batch;
    std::vector<std::uint8_t> open = open_;
    std::vector<double> sums = labeled_sums_;
    Purse purse(problem_.budget);
    batch.value = base_;
    double in_batch = 0;  // half the sum of K over all ordered pairs of picks
    while (batch.positions.size() < batch_) {
      const Found best = BestThatFits(order, open, sums, purse);
      if (!best.is_there) break;
      const double gain = Gain(best.position, sums);
      in_batch += sums[best.position] - labeled_sums_[best.position];
      FULCRUM_RETURN_IF_ERROR(AddColumn(best.position, sums));
      in_batch += 0.5 * std::max(column_[best.position], 0.0);
      purse.Pay(problem_.costs[best.position]);
      open[best.position] = 0;
      batch.positions.push_back(best.position);
      batch.gains.push_back(gain);
      batch.value += gain;
    }
    // The sums have the picks themselves, as the tangent wants it; K(x, x) is at most 1.
    const double tangent =
        base_ + factor_ * in_batch + Worth([&](std::size_t position) { return Gain(position, sums) + 0.5 * factor_; });
    bound = std::min(bound, tangent);
    return batch;
  }

  Found BestThatFits(BuyingOrder order, std::span<const std::uint8_t> open, std::span<const double> sums,
                     const Purse& purse) const {
    std::vector<Found> of_block(open.size() / kPositionsPerBlock + 1);
    ParallelForBlocks(open.size(), kPositionsPerBlock, [&](std::size_t first, std::size_t count) {
      Found& best = of_block[first / kPositionsPerBlock];
      for (std::size_t i = first; i < first + count; ++i) {
        if (open[i] == 0 || !purse.CanPay(problem_.costs[i])) continue;
        const double priority = PriorityOf(order, Gain(i, sums), problem_.costs[i]);
        if (!best.is_there || GoesBefore(priority, problem_.rows[i], best.priority, problem_.rows[best.position])) {
          best = {i, priority, true};
        }
      }
    });
    Found best;
    for (const Found& other : of_block) {
      if (!other.is_there) continue;
      if (!best.is_there ||
          GoesBefore(other.priority, problem_.rows[other.position], best.priority, problem_.rows[best.position])) {
        best = other;
      }
    }
    return best;
  }

  const BudgetedProblem& problem_;
  std::vector<std::uint8_t> open_;    // by position: unlabeled
  std::vector<double> labeled_sums_;  // by position: K to the labeled
  std::vector<double> column_;
  std::size_t batch_ = 0;
  double factor_ = 0;  // alpha / M
  double base_ = 0;    // F(A)
};

}  // namespace

double PriorityOf(BuyingOrder order, double gain, double cost) {
  return order == BuyingOrder::kGain ? gain : gain / std::max(cost, kLeastCost);
}

double MostWorth(std::span<const double> gains, std::span<const double> costs, std::size_t count, double budget) {
  Purse purse(budget);
  std::vector<std::size_t> order;
  std::vector<double> largest;
  for (std::size_t i = 0; i < gains.size(); ++i) {
    if (!(gains[i] > 0) || !purse.CanPay(costs[i])) continue;
    order.push_back(i);
    largest.push_back(gains[i]);
  }
  count = std::min(count, largest.size());
  std::ranges::partial_sort(largest, largest.begin() + static_cast<std::ptrdiff_t>(count), LargerFirst());
  const double by_count = std::accumulate(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return LargerFirst()(PriorityOf(BuyingOrder::kGainPerCost, gains[a], costs[a]),
                         PriorityOf(BuyingOrder::kGainPerCost, gains[b], costs[b]));
  });
  double by_cost = 0;
  for (const std::size_t i : order) {
    if (!purse.CanPay(costs[i])) {
      by_cost += gains[i] * std::max(purse.left(), 0.0) / costs[i];
      break;
    }
    by_cost += gains[i];
    purse.Pay(costs[i]);
  }
  return std::min(by_count, by_cost);
}

absl::StatusOr<GreedyBatch> MaximizeWithinBudget(const BudgetedProblem& problem) {
  assert(problem.scores.size() == problem.rows.size() && problem.costs.size() == problem.rows.size());
  return BudgetedRun(problem).Run();
}

}  // namespace fulcrum::select
