// Batches under a cost budget, against all subsets of small problems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "stages/core/random.h"
#include "stages/select/greedy/submodular_greedy.h"
#include "tests/support/matrices.h"

namespace fulcrum::select {
namespace {

constexpr double kGuarantee = (1 - 1 / 2.718281828459045) / 2;

struct Data {
  RowList rows;
  std::vector<double> scores, costs;
  Matrix<double> points, kernel;
  std::vector<std::size_t> labeled;
  double budget = 0;

  BudgetedProblem Problem(std::size_t batch, double alpha) const {
    return {.rows = rows,
            .scores = scores,
            .costs = costs,
            .labeled = labeled,
            .batch = batch,
            .budget = budget,
            .alpha = alpha,
            .column = [this](std::size_t position, std::span<double> column) {
              std::ranges::copy(kernel.row(position), column.begin());
              return absl::OkStatus();
            }};
  }
  double CostOf(std::span<const std::size_t> positions) const {
    double cost = 0;
    for (const std::size_t position : positions) cost += costs[position];
    return cost;
  }
};

/// Twelve rows, the first two labeled; costs from 1 to 10, one for free.
Data RandomData(std::uint64_t seed) {
  Random random(seed);
  Data data;
  data.points = testing::RandomMatrix(12, 2, seed);
  data.kernel = testing::NaiveKernel({.sigma = 1.5}, data.points.view(), data.points.view());
  for (std::size_t i = 0; i < 12; ++i) {
    data.rows.push_back(static_cast<RowIndex>(2 * i + 3));
    data.scores.push_back(random.Uniform());
    data.costs.push_back(std::pow(10, random.Uniform()));
  }
  data.costs[5] = seed % 4 == 0 ? 0 : data.costs[5];
  data.labeled = {0, 1};
  data.budget = 2 + 18 * random.Uniform();
  return data;
}

/// F by its definition.
double ValueOf(const Data& data, std::span<const std::size_t> picks, std::size_t batch, double alpha) {
  std::vector<std::size_t> all = data.labeled;
  all.insert(all.end(), picks.begin(), picks.end());
  const double factor = alpha / static_cast<double>(data.labeled.size() + batch);
  double value = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    value += data.scores[all[i]] + 1;
    for (std::size_t j = 0; j < i; ++j) value -= factor * data.kernel(all[i], all[j]);
  }
  return value;
}

/// The best of all batches of at most `batch` unlabeled positions within the budget.
template <typename Value>
double BestOfAll(const Data& data, std::size_t batch, const Value& value) {
  double best = value(std::vector<std::size_t>());
  for (std::uint32_t subset = 1; subset < (1u << 10); ++subset) {
    std::vector<std::size_t> picks;
    for (std::size_t i = 0; i < 10; ++i) {
      if ((subset >> i & 1) != 0) picks.push_back(i + 2);
    }
    if (picks.size() <= batch && data.CostOf(picks) <= data.budget) best = std::max(best, value(picks));
  }
  return best;
}

TEST(BudgetTest, TheBatchIsWithinTheGuaranteeAndTheCertificateHolds) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Data data = RandomData(seed);
    for (const double alpha : {0.0, 0.3, 0.5}) {
      for (const std::size_t batch : {3, 10}) {
        const auto chosen = MaximizeWithinBudget(data.Problem(batch, alpha));
        ASSERT_TRUE(chosen.ok()) << chosen.status();
        EXPECT_LE(data.CostOf(chosen->positions), data.budget * (1 + 1e-9));
        EXPECT_LE(chosen->positions.size(), batch);
        EXPECT_NEAR(chosen->value, ValueOf(data, chosen->positions, batch, alpha), 1e-9);
        const double base = ValueOf(data, {}, batch, alpha);
        const double best =
            BestOfAll(data, batch, [&](const auto& picks) { return ValueOf(data, picks, batch, alpha); });
        EXPECT_LE(best, chosen->upper_bound + 1e-9) << "seed " << seed << " alpha " << alpha << " batch " << batch;
        if (batch == 10) {
          EXPECT_GE(chosen->value - base, kGuarantee * (best - base) - 1e-9) << "seed " << seed << " alpha " << alpha;
        }
      }
    }
  }
}

TEST(BudgetTest, NeitherOrderAloneIsEnough) {
  Data data = RandomData(1);
  data.labeled = {};
  data.kernel = Matrix<double>::Zero(12, 12);
  data.budget = 10;
  // One that is worth everything and costs everything, next to one that has the best gain per cost.
  std::ranges::fill(data.scores, -1.0);
  std::ranges::fill(data.costs, 100.0);
  data.scores[3] = 9;
  data.costs[3] = 10;
  data.scores[4] = 0.1;
  data.costs[4] = 1;
  const auto expensive = MaximizeWithinBudget(data.Problem(12, 0));
  ASSERT_TRUE(expensive.ok());
  EXPECT_EQ(expensive->positions, std::vector<std::size_t>{3});
  // Ten cheap ones against an expensive one that is worth a little more than each.
  std::ranges::fill(data.scores, 0.5);
  std::ranges::fill(data.costs, 1.0);
  data.scores[3] = 0.6;
  data.costs[3] = 10;
  const auto cheap = MaximizeWithinBudget(data.Problem(12, 0));
  ASSERT_TRUE(cheap.ok());
  EXPECT_EQ(cheap->positions.size(), 10u);
}

TEST(BudgetTest, EqualCostsGiveTheGreedyBatch) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Data data = RandomData(seed);
    std::ranges::fill(data.costs, 2.0);
    data.budget = 8;
    const auto chosen = MaximizeWithinBudget(data.Problem(4, 0.5));
    ASSERT_TRUE(chosen.ok());
    const GreedyBatch greedy = MaximizeGreedily({.rows = data.rows,
                                                 .scores = data.scores,
                                                 .kernel = data.kernel.view(),
                                                 .labeled = data.labeled,
                                                 .batch = 4,
                                                 .alpha = 0.5});
    EXPECT_EQ(chosen->positions, greedy.positions) << seed;
    EXPECT_NEAR(chosen->value, greedy.value, 1e-9);
  }
}

TEST(BudgetTest, CoverageIsWithinTheGuaranteeAndTheCertificateHolds) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Data data = RandomData(seed);
    const kernel::DenseFeatures features(Matrix<double>::CopyOf(data.points.view()));
    RowList all(12), open(10);
    std::iota(all.begin(), all.end(), RowIndex{0});
    std::iota(open.begin(), open.end(), RowIndex{2});
    const RowList labeled = {0, 1};
    const std::vector<double> weights(12, 1.0);
    const std::vector<double> nearest = NearestSquaredDistances(features, Distance::kEuclidean, all, labeled);
    data.costs[9] = std::numeric_limits<double>::infinity();
    const auto bought = BuyCoverage({.features = &features,
                                     .width = 0.8,
                                     .references = all,
                                     .weights = weights,
                                     .nearest = nearest,
                                     .candidates = open,
                                     .batch = 10,
                                     .cost = {.costs = data.costs, .budget = data.budget}});
    ASSERT_TRUE(bought.ok()) << bought.status();
    std::vector<std::size_t> picks;
    for (const Pick& pick : bought->picks) picks.push_back(pick.row);
    EXPECT_LE(data.CostOf(picks), data.budget * (1 + 1e-9));
    const auto added = [&](const std::vector<std::size_t>& rows) {
      double sum = 0;
      for (std::size_t r = 0; r < 12; ++r) {
        const double before = std::exp(-nearest[r] / (0.8 * 0.8));
        double after = before;
        for (const std::size_t row : rows) {
          double squared = 0;
          for (std::size_t k = 0; k < 2; ++k) squared += std::pow(data.points(row, k) - data.points(r, k), 2);
          after = std::max(after, std::exp(-squared / (0.8 * 0.8)));
        }
        sum += after - before;
      }
      return sum;
    };
    EXPECT_NEAR(bought->certificate.value, added(picks), 1e-3);
    const double best = BestOfAll(data, 10, added);
    EXPECT_LE(best, bought->certificate.upper_bound + 1e-3) << seed;
    EXPECT_GE(added(picks), kGuarantee * best - 1e-3) << seed;
  }
}

TEST(MostWorthTest, IsTheSmallerOfBothBounds) {
  const std::vector<double> gains = {6, 5, 4, -3, 100}, costs = {3, 1, 4, 1, 50};
  EXPECT_DOUBLE_EQ(MostWorth(gains, costs, 2, 100), 106);
  EXPECT_DOUBLE_EQ(MostWorth(gains, costs, 5, 6), 5 + 6 + 4 * 2.0 / 4) << "what costs 50 cannot be in a batch";
  EXPECT_DOUBLE_EQ(MostWorth(gains, costs, 1, 6), 6);
  EXPECT_DOUBLE_EQ(MostWorth(gains, costs, 5, 0.5), 0);
}

}  // namespace
}  // namespace fulcrum::select
