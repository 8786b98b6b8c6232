// Batches under a cost budget: the most of a submodular function for what may be spent.
//
// Lazy and plain greedy algorithms take the largest gain per cost, or the largest gain, of what still fits. Each alone
// can be arbitrarily bad: the first buys many cheap examples and then has nothing left for the one that matters, the
// second spends everything on one. The better of the two is worth at least (1 - 1/e) / 2 of the best batch that the
// budget allows, for a monotone submodular function (Leskovec et al., KDD 2007), as long as the number of examples does
// not end the batch before the budget does. The set function of DBALEVS is monotone up to twice the batch for alpha up
// to 1/2. Whatever the guarantee, the certificate bounds what the best batch could be worth: gains of other examples
// add up to no more than the fractional knapsack of them. Functions are thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/rows.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {

enum class BuyingOrder { kGainPerCost, kGain };
inline constexpr BuyingOrder kBuyingOrders[] = {BuyingOrder::kGainPerCost, BuyingOrder::kGain};

/// By what the next example is chosen.
double PriorityOf(BuyingOrder order, double gain, double cost);

/// What is left of a budget. Sums of costs that differ from it by rounding only are within it.
class Purse {
 public:
  explicit Purse(double budget) : left_(budget), tolerance_(1e-12 * budget) {}
  bool CanPay(double cost) const { return cost <= left_ + tolerance_; }
  void Pay(double cost) { left_ -= cost; }
  double left() const { return left_; }

 private:
  double left_;
  double tolerance_;
};

/// At least the sum of the gains of any `count` examples whose costs sum to no more than the budget: the smaller of the
/// largest gains and the fractional knapsack. gains[i] belongs to costs[i]; gains below 0 are left out.
double MostWorth(std::span<const double> gains, std::span<const double> costs, std::size_t count, double budget);

/// The set function of DBALEVS (submodular_greedy.h) under a budget. Kernel columns are asked for one by one, so the
/// kernel need not be in memory: a batch costs two columns per pick, one per order.
struct BudgetedProblem {
  std::span<const RowIndex> rows = {};        ///< by position; ties go to the smaller row
  std::span<const double> scores = {};        ///< l, by position
  std::span<const double> costs = {};         ///< by position
  std::span<const std::size_t> labeled = {};  ///< A, as positions in any order
  std::size_t batch = 0;                      ///< at most so many
  double budget = 0;
  double alpha = 0;
  /// Writes K(x, position) of all positions.
  std::function<absl::Status(std::size_t position, std::span<double> column)> column = {};
};

/// The better of both orders, with a bound on all batches that cost no more and are no larger. Empty if nothing fits.
absl::StatusOr<GreedyBatch> MaximizeWithinBudget(const BudgetedProblem& problem);

}  // namespace fulcrum::select
