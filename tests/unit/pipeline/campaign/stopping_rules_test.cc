#include "pipeline/campaign/stopping_rules.h"

#include <gtest/gtest.h>

namespace fulcrum::pipeline {
namespace {

TEST(StoppingReason, WithoutRulesThereIsNone) {
  EXPECT_FALSE(StoppingReason({}, {.labels = 1000, .cost = 9, .rounds = 50, .accuracy = 1.0, .stable_rounds = 9}));
}

TEST(StoppingReason, EachRuleEndsItWhenItIsMetAndNotBefore) {
  EXPECT_FALSE(StoppingReason({.labels = 10}, {.labels = 9}));
  EXPECT_TRUE(StoppingReason({.labels = 10}, {.labels = 10}));
  EXPECT_FALSE(StoppingReason({.cost = 5}, {.cost = 4.9}));
  EXPECT_TRUE(StoppingReason({.cost = 5}, {.cost = 5}));
  EXPECT_FALSE(StoppingReason({.rounds = 3}, {.rounds = 2}));
  EXPECT_TRUE(StoppingReason({.rounds = 3}, {.rounds = 3}));
  EXPECT_FALSE(StoppingReason({.accuracy = 0.9}, {.accuracy = 0.89}));
  EXPECT_FALSE(StoppingReason({.accuracy = 0.9}, {}));
  EXPECT_TRUE(StoppingReason({.accuracy = 0.9}, {.accuracy = 0.9}));
  EXPECT_FALSE(StoppingReason({.stable_rounds = 3}, {.stable_rounds = 2}));
  EXPECT_TRUE(StoppingReason({.stable_rounds = 3}, {.stable_rounds = 3}));
}

}  // namespace
}  // namespace fulcrum::pipeline
