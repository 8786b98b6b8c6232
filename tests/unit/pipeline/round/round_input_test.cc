// What a round is given besides labels: how much they weigh, what they cost, and rows that must not be picked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "pipeline/round/round.h"
#include "stages/classify/classifier.h"
#include "stages/classify/svm_model.h"
#include "tests/support/matrices.h"

namespace fulcrum::pipeline {
namespace {

constexpr std::size_t kInputRows = 300;

/// Two overlapping clouds, even rows are class 0; the first twenty have labels.
class RoundInputTest : public ::testing::Test {
 protected:
  RoundInputTest() : labels_(kInputRows, kUnlabeled) {
    for (std::size_t row = 0; row < 20; ++row) labels_[row] = static_cast<ClassIndex>(row % 2);
  }
  static Matrix<double> TwoClouds() {
    Matrix<double> points = testing::RandomMatrix(kInputRows, 4, 1);
    for (std::size_t row = 0; row < kInputRows; ++row) points(row, 0) += row % 2 == 0 ? -1.5 : 1.5;
    return points;
  }
  RoundInput Input() const { return {.class_count = 2, .labels = labels_, .predictions = {}}; }
  static RoundSpec Spec(const std::string& strategy, std::size_t batch) {
    RoundSpec spec;
    spec.strategy = strategy;
    spec.batch = batch;
    spec.svm.kernel.sigma = 2;
    spec.svm.tolerance = 1e-9;
    return spec;
  }
  static RowList PickedRows(const RoundResult& result) {
    RowList rows;
    for (const select::Pick& pick : result.selection.picks) rows.push_back(pick.row);
    return rows;
  }

  kernel::DenseFeatures features_{TwoClouds()};
  std::vector<ClassIndex> labels_;
};

TEST_F(RoundInputTest, WeightsOfLabelsReachTheClassifier) {
  std::vector<double> weights(kInputRows, 1.0);
  for (std::size_t row = 0; row < 20; row += 3) weights[row] = 0.1;
  const RoundSpec spec = Spec("margin", 5);
  RoundInput input = Input();
  RoundRunner plain(spec, features_);
  ASSERT_TRUE(plain.Run(input).ok());
  input.weights = weights;
  RoundRunner weighted(spec, features_);
  ASSERT_TRUE(weighted.Run(input).ok());
  const auto classifier = classify::MakeClassifier(spec.svm, features_);
  classifier->UseWeights(weights);
  const auto model = classifier->Train(labels_, 2);
  ASSERT_TRUE(model.ok());
  const Matrix<double> expected = classify::DecisionValues(*model, features_, features_);
  double difference = 0;
  for (std::size_t row = 0; row < kInputRows; ++row) {
    ASSERT_NEAR(weighted.decisions()(row, 0), expected(row, 0), 1e-6);
    difference += std::abs(weighted.decisions()(row, 0) - plain.decisions()(row, 0));
  }
  EXPECT_GT(difference, 1);
}

TEST_F(RoundInputTest, ABatchKeepsTheCostBudgetAndBarredRowsAreNotBought) {
  std::vector<double> costs(kInputRows);
  for (std::size_t row = 0; row < kInputRows; ++row) costs[row] = 1 + static_cast<double>(row % 10);
  RoundSpec spec = Spec("adaptive-herding", 30);
  spec.cost_budget = 40;
  RoundInput input = Input();
  EXPECT_EQ(RoundRunner(spec, features_).Run(input).status().code(), absl::StatusCode::kInvalidArgument) << "no costs";
  input.costs = costs;
  const auto cost_of = [&](const RoundResult& result) {
    double cost = 0;
    for (const RowIndex row : PickedRows(result)) cost += costs[row];
    return cost;
  };
  const auto free = RoundRunner(spec, features_).Run(input);
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_LE(cost_of(*free), 40);
  EXPECT_GT(cost_of(*free), 30);
  EXPECT_TRUE(free->selection.has_certificate);
  const RowList barred = PickedRows(*free);
  input.barred = barred;
  input.cost_left = 25;
  const auto other = RoundRunner(spec, features_).Run(input);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_LE(cost_of(*other), 25);
  for (const RowIndex row : PickedRows(*other)) EXPECT_EQ(std::ranges::count(barred, row), 0);
  input.cost_left = 0.5;
  EXPECT_EQ(RoundRunner(spec, features_).Run(input).status().code(), absl::StatusCode::kOutOfRange);
  spec.strategy = "margin";
  EXPECT_EQ(RoundRunner(spec, features_).Run(input).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fulcrum::pipeline
