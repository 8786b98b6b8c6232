#include <gtest/gtest.h>

#include <vector>

#include "pipeline/campaign/campaign_plan.h"

namespace fulcrum::pipeline {
namespace {

std::vector<ModelScore> Accuracies(const std::vector<double>& values) {
  std::vector<ModelScore> scores;
  for (const double value : values) scores.push_back({.accuracy = value, .changed_share = 0.5});
  return scores;
}

std::vector<ModelScore> Changes(const std::vector<double>& values) {
  std::vector<ModelScore> scores;
  for (const double value : values) scores.push_back({.changed_share = value});
  return scores;
}

TEST(StoppingReason, WithoutRulesThereIsNone) {
  const std::vector<ModelScore> models = Accuracies({1, 1, 1, 1, 1});
  EXPECT_FALSE(StoppingReason({}, {.labels = 1000, .cost = 9, .rounds = 50, .models = models}));
}

TEST(StoppingReason, EachRuleEndsItWhenItIsMetAndNotBefore) {
  EXPECT_FALSE(StoppingReason({.labels = 10}, {.labels = 9}));
  EXPECT_TRUE(StoppingReason({.labels = 10}, {.labels = 10}));
  EXPECT_FALSE(StoppingReason({.cost = 5}, {.cost = 4.9}));
  EXPECT_TRUE(StoppingReason({.cost = 5}, {.cost = 5}));
  EXPECT_FALSE(StoppingReason({.rounds = 3}, {.rounds = 2}));
  EXPECT_TRUE(StoppingReason({.rounds = 3}, {.rounds = 3}));
  const auto ends = [](const StoppingRules& rules, const std::vector<ModelScore>& models) {
    return StoppingReason(rules, {.models = models}).has_value();
  };
  EXPECT_FALSE(ends({.accuracy = 0.9}, {}));
  EXPECT_FALSE(ends({.accuracy = 0.9}, Accuracies({0.95, 0.89})));
  EXPECT_TRUE(ends({.accuracy = 0.9}, Accuracies({0.5, 0.9})));
  EXPECT_FALSE(ends({.stable_rounds = 2, .stable_share = 0.01}, Changes({0, 0, 0.5, 0.01})));
  EXPECT_TRUE(ends({.stable_rounds = 2, .stable_share = 0.01}, Changes({0.5, 0.01, 0})));
  EXPECT_FALSE(ends({.plateau_rounds = 2, .plateau_improvement = 0.01}, Accuracies({0.5, 0.505, 0.52})));
  EXPECT_TRUE(ends({.plateau_rounds = 2, .plateau_improvement = 0.01}, Accuracies({0.5, 0.505, 0.51})));
}

TEST(StableRounds, AreThoseUpToTheLast) {
  EXPECT_EQ(StableRounds({}, 0.1), 0);
  EXPECT_EQ(StableRounds(Changes({1, 0.1, 0.05, 0.2, 0.1}), 0.1), 1);
  EXPECT_EQ(StableRounds(Changes({1, 0.1, 0.05, 0.1}), 0.1), 3);
}

TEST(PlateauRounds, CountFromTheLastThatWasBetterThanTheBest) {
  EXPECT_EQ(PlateauRounds({}, 0), 0);
  EXPECT_EQ(PlateauRounds(Accuracies({0.5}), 0), 0);
  EXPECT_EQ(PlateauRounds(Accuracies({0.5, 0.4, 0.45, 0.5}), 0), 3) << "recovering is no progress";
  // Small steps that add up are progress when they have added up.
  EXPECT_EQ(PlateauRounds(Accuracies({0.5, 0.505, 0.511}), 0.01), 0);
  EXPECT_EQ(PlateauRounds(Accuracies({0.5, 0.6, 0.6, 0.61}), 0.02), 2);
}

TEST(PlateauRounds, WithoutAValidationSetLookAtThePredictionsThatStay) {
  EXPECT_EQ(PlateauRounds(Changes({1, 0.4, 0.2, 0.1}), 0.01), 0);
  EXPECT_EQ(PlateauRounds(Changes({1, 0.4, 0.2, 0.2, 0.3}), 0.01), 2);
}

}  // namespace
}  // namespace fulcrum::pipeline
