#include <gtest/gtest.h>

#include <vector>

#include "pipeline/experiment/experiment.h"

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

TEST(F1Score, IsZeroIfTheClassIsNeverFound) {
  EXPECT_EQ(F1Score(Classes{0, 0}, Classes{0, 1}, 1), 0);
  EXPECT_EQ(F1Score(Classes{0, 0}, Classes{0, 0}, 1), 0);
}

TEST(MacroF1Score, IsTheMeanOverTheClassesOfTheTruth) {
  const Classes predicted{1, 1, 1, 0, 0, 2}, truth{1, 1, 0, 1, 0, 0};
  EXPECT_DOUBLE_EQ(MacroF1Score(predicted, truth), (F1Score(predicted, truth, 0) + F1Score(predicted, truth, 1)) / 2);
  EXPECT_EQ(MacroF1Score(Classes{}, Classes{}), 0);
}

TEST(CalibrationError, IsTheDifferenceBetweenConfidenceAndAccuracyPerBin) {
  Matrix<double> probabilities(4, 2);
  const double first[] = {0.95, 0.97, 0.65, 0.3};
  for (std::size_t i = 0; i < 4; ++i) {
    probabilities(i, 0) = first[i];
    probabilities(i, 1) = 1 - first[i];
  }
  const Classes predicted{0, 0, 0, 1}, truth{0, 1, 0, 1};
  // Bins: {0.95, 0.97} with one right, {0.65} right, {0.7} right.
  EXPECT_NEAR(CalibrationError(probabilities.view(), predicted, truth), (0.92 + 0.35 + 0.3) / 4, 1e-12);
}

}  // namespace
}  // namespace fulcrum::pipeline
