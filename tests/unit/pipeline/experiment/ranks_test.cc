#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/experiment/experiment.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Curve Flat(const std::string& task, const std::string& strategy, std::size_t run, double accuracy) {
  Curve curve{.task = task, .strategy = strategy, .run = run, .points = {}};
  for (std::size_t round = 0; round < 3; ++round) {
    curve.points.push_back({.round = round, .labels = round, .accuracy = accuracy});
  }
  return curve;
}

/// Accuracies of strategies a, b, c, ... in each of the tasks.
CurveSet MakeCurves(const std::vector<std::vector<double>>& tasks) {
  std::vector<Curve> curves;
  for (std::size_t task = 0; task < tasks.size(); ++task) {
    for (std::size_t i = 0; i < tasks[task].size(); ++i) {
      curves.push_back(
          Flat("task" + std::to_string(task), std::string(1, static_cast<char>('a' + i)), 0, tasks[task][i]));
    }
  }
  return CurveSet(curves);
}

TEST(RanksTest, EqualAreasShareTheirRanks) {
  const auto found = CompareRanks(MakeCurves({{0.9, 0.8, 0.8, 0.1}, {0.5, 0.5, 0.5, 0.6}}), Metric::kAccuracy);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->ranks.size(), 4u);
  EXPECT_EQ(found->ranks[0].strategy, "a");
  EXPECT_DOUBLE_EQ(found->ranks[0].mean_rank, (1 + 3) / 2.0);
  EXPECT_EQ(found->ranks[1].strategy, "d");
  EXPECT_DOUBLE_EQ(found->ranks[1].mean_rank, (4 + 1) / 2.0);
  EXPECT_DOUBLE_EQ(found->ranks[2].mean_rank, (2.5 + 3) / 2.0);
  double sum = 0;
  for (const StrategyRank& rank : found->ranks) sum += rank.mean_rank;
  EXPECT_DOUBLE_EQ(sum, 10) << "ranks of four sum to ten";
}

TEST(RanksTest, TheCriticalDifferenceIsThatOfDemsar) {
  // Section 3.2.2 of the article: 4 classifiers on 14 data sets have a critical difference of 1.25.
  std::vector<std::vector<double>> tasks(14, {0.4, 0.3, 0.2, 0.1});
  const auto found = CompareRanks(MakeCurves(tasks), Metric::kAccuracy);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->blocks_are_tasks);
  EXPECT_NEAR(found->critical_difference, 1.25, 0.005);
  // Neighbours are one rank apart, which is less; two ranks are more.
  EXPECT_THAT(found->Groups(), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3)));
}

TEST(RanksTest, AGroupInsideAnotherIsNotListed) {
  RankComparison comparison{.ranks = {{"a", 1.0}, {"b", 1.5}, {"c", 2.0}, {"d", 5.0}}, .critical_difference = 1.0};
  EXPECT_THAT(comparison.Groups(), ElementsAre(Pair(0, 2)));
}

TEST(RanksTest, RunsAreRankedIfThereAreFewTasksAndIncompleteStrategiesAreLeftOut) {
  std::vector<Curve> curves;
  for (std::size_t run = 0; run < 3; ++run) {
    curves.push_back(Flat("only", "good", run, 0.9));
    curves.push_back(Flat("only", "bad", run, 0.5));
  }
  curves.push_back(Flat("only", "once", 0, 1.0));
  const auto found = CompareRanks(CurveSet(curves), Metric::kAccuracy);
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->blocks_are_tasks);
  EXPECT_EQ(found->blocks, 3u);
  ASSERT_EQ(found->ranks.size(), 2u);
  EXPECT_EQ(found->ranks[0].strategy, "good");
  EXPECT_DOUBLE_EQ(found->ranks[0].mean_rank, 1);
}

TEST(RanksTest, NothingIsComparedWithoutTwoStrategiesAndTwoBlocks) {
  EXPECT_FALSE(CompareRanks(MakeCurves({{0.9}, {0.8}}), Metric::kAccuracy));
  EXPECT_FALSE(CompareRanks(MakeCurves({{0.9, 0.8}}), Metric::kAccuracy));
  EXPECT_FALSE(
      CompareRanks(MakeCurves(std::vector<std::vector<double>>(3, std::vector<double>(21, 0.5))), Metric::kAccuracy));
}

}  // namespace
}  // namespace fulcrum::pipeline
