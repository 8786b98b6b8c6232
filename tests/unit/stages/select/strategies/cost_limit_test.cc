// What must hold for every strategy that weighs costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "stages/select/strategy.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

class CostLimitTest : public ::testing::TestWithParam<const char*> {
 protected:
  CostLimitTest() : pool_({.rows = 80, .classes = 3, .labels_per_class = 3}) {
    Random random(9);
    for (std::size_t i = 0; i < 80; ++i) costs_.push_back(std::pow(10, random.Uniform()));
  }

  Selection Select(double budget, std::size_t batch) const {
    Candidates candidates = pool_.candidates(batch);
    candidates.cost = {.costs = costs_, .budget = budget};
    const auto strategy = MakeStrategy(GetParam());
    EXPECT_TRUE((*strategy)->weighs_costs());
    auto selection = (*strategy)->Select(candidates);
    EXPECT_TRUE(selection.ok()) << selection.status();
    return selection.ok() ? *std::move(selection) : Selection();
  }

  SmallPool pool_;
  std::vector<double> costs_;
};

TEST_P(CostLimitTest, NoBatchCostsMoreAndNoRowIsLabeledOrPickedTwice) {
  for (const double budget : {0.5, 3.0, 20.0, 60.0}) {
    const Selection selection = Select(budget, 40);
    double spent = 0;
    std::set<RowIndex> rows;
    for (const Pick& pick : selection.picks) {
      spent += costs_[pick.row];
      EXPECT_EQ(pool_.candidates(1).labels[pick.row], kUnlabeled);
      EXPECT_TRUE(rows.insert(pick.row).second);
    }
    EXPECT_LE(spent, budget * (1 + 1e-9));
    EXPECT_EQ(selection.picks.empty(), budget < 1) << "every label costs 1 or more";
    if (selection.has_certificate) {
      EXPECT_LE(selection.certificate.value, selection.certificate.upper_bound);
    }
  }
  EXPECT_EQ(Select(1e6, 7).picks.size(), 7u) << "the batch still has a size";
}

TEST_P(CostLimitTest, RowsThatCannotBeBoughtAreNotPicked) {
  for (std::size_t row = 20; row < 80; ++row) costs_[row] = std::numeric_limits<double>::infinity();
  for (const Pick& pick : Select(1000, 80).picks) EXPECT_LT(pick.row, 20u);
}

TEST_P(CostLimitTest, MoreIsBoughtForTheMoneyThanInTheOrderOfTheBatch) {
  if (std::string(GetParam()) == "random") GTEST_SKIP() << "takes rows as they come";
  Candidates candidates = pool_.candidates(40);
  const auto unlimited = (*MakeStrategy(GetParam()))->Select(candidates);
  ASSERT_TRUE(unlimited.ok());
  double left = 25;
  std::size_t bought = 0;
  for (const Pick& pick : unlimited->picks) {
    if (costs_[pick.row] > left) continue;
    left -= costs_[pick.row];
    ++bought;
  }
  EXPECT_GT(Select(25, 40).picks.size(), bought);
}

INSTANTIATE_TEST_SUITE_P(Strategies, CostLimitTest,
                         ::testing::Values("adaptive-herding", "dbalevs", "hybrid", "herding", "uncertainty-herding",
                                           "random"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace fulcrum::select
