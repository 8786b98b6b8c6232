#include <gtest/gtest.h>

#include <vector>

#include "pipeline/experiment/strategy_run.h"

namespace fulcrum::pipeline {
namespace {

using Classes = std::vector<ClassIndex>;

TEST(Accuracy, IsTheShareOfRightAnswers) {
  EXPECT_DOUBLE_EQ(Accuracy(Classes{0, 1, 2, 1}, Classes{0, 1, 1, 1}), 0.75);
  EXPECT_EQ(Accuracy(Classes{}, Classes{}), 0);
}

TEST(F1Score, IsTheHarmonicMeanOfPrecisionAndRecall) {
  const Classes predicted{1, 1, 1, 0, 0, 0}, truth{1, 1, 0, 1, 1, 0};
  const double precision = 2.0 / 3, recall = 2.0 / 4;
  EXPECT_DOUBLE_EQ(F1Score(predicted, truth, 1), 2 * precision * recall / (precision + recall));
  EXPECT_DOUBLE_EQ(F1Score(predicted, truth, 0), 2 * (1.0 / 3) * (1.0 / 2) / (1.0 / 3 + 1.0 / 2));
}

TEST(F1Score, IsZeroWhereTheClassIsNeverFound) {
  EXPECT_EQ(F1Score(Classes{0, 0}, Classes{0, 1}, 1), 0);
  EXPECT_EQ(F1Score(Classes{0, 0}, Classes{0, 0}, 1), 0);
}

}  // namespace
}  // namespace fulcrum::pipeline
