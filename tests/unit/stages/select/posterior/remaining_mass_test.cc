#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stages/core/random.h"
#include "stages/select/posterior/posterior.h"

namespace fulcrum::select {
namespace {

Matrix<std::uint16_t> RandomPredictions(std::size_t examples, std::size_t hypotheses, std::size_t classes,
                                        std::uint64_t seed) {
  Random random(seed);
  Matrix<std::uint16_t> predictions(examples, hypotheses);
  for (std::size_t i = 0; i < examples; ++i) {
    // Some examples split the hypotheses unevenly.
    const std::size_t among = 1 + random.Below(classes);
    for (auto& predicted : predictions.row(i)) predicted = static_cast<std::uint16_t>(random.Below(among));
  }
  return predictions;
}

/// Goes through all C^b label patterns.
double EnumeratedMass(PredictionTable predictions, const std::vector<std::size_t>& batch, const LabelModel& model) {
  std::vector<std::size_t> pattern(batch.size(), 0);
  double sum = 0;
  for (;;) {
    double probability = 0;
    for (std::size_t h = 0; h < predictions.cols(); ++h) {
      double likelihood = 1;
      for (std::size_t j = 0; j < batch.size(); ++j) {
        likelihood *= predictions(batch[j], h) == pattern[j] ? 1 - model.noise
                                                             : model.noise / static_cast<double>(model.class_count - 1);
      }
      probability += likelihood / static_cast<double>(predictions.cols());
    }
    sum += probability * probability;
    std::size_t digit = 0;
    while (digit < pattern.size() && ++pattern[digit] == model.class_count) pattern[digit++] = 0;
    if (digit == pattern.size()) return sum;
  }
}

TEST(RemainingMassTest, EqualsTheEnumerationOfAllPatterns) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const std::size_t classes : {2, 3, 4}) {
      for (const double noise : {0.0, 0.02, 0.3}) {
        const std::size_t batch = 1 + seed % 5;
        const Matrix<std::uint16_t> predictions = RandomPredictions(batch, 9, classes, seed);
        std::vector<std::size_t> all(batch);
        for (std::size_t i = 0; i < batch; ++i) all[i] = i;
        const LabelModel model = {.class_count = classes, .noise = noise};
        EXPECT_NEAR(ExpectedRemainingMass(predictions.view(), model), EnumeratedMass(predictions.view(), all, model),
                    1e-12);
      }
    }
  }
}

TEST(RemainingMassTest, GreedyTakesTheEnumeratedBestAtEachStep) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    for (const std::size_t classes : {2, 3}) {
      const Matrix<std::uint16_t> predictions = RandomPredictions(14, 12, classes, seed);
      RowList rows;
      for (RowIndex i = 0; i < 14; ++i) rows.push_back(100 - i);
      const LabelModel model = {.class_count = classes, .noise = 0.02};
      const auto chosen = ReduceMassGreedily(predictions.view(), rows, model, 4);
      ASSERT_EQ(chosen.size(), 4u);
      std::vector<std::size_t> batch;
      double left = 1;
      for (const MassReduction& pick : chosen) {
        batch.push_back(pick.example);
        const double left_now = EnumeratedMass(predictions.view(), batch, model);
        EXPECT_NEAR(pick.reduction, left - left_now, 1e-12);
        for (std::size_t other = 0; other < 14; ++other) {
          std::vector<std::size_t> alternative = batch;
          alternative.back() = other;
          if (std::ranges::count(batch, other) > 0) continue;
          EXPECT_GE(EnumeratedMass(predictions.view(), alternative, model), left_now - 1e-12);
        }
        left = left_now;
      }
    }
  }
}

TEST(RemainingMassTest, TiesGoToTheSmallerRow) {
  Matrix<std::uint16_t> predictions(3, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    predictions(i, 0) = 0;
    predictions(i, 1) = 1;
  }
  const RowList rows = {8, 3, 5};
  const auto chosen = ReduceMassGreedily(predictions.view(), rows, {}, 3);
  EXPECT_EQ(chosen[0].example, 1u);
  EXPECT_EQ(chosen[1].example, 2u);
  EXPECT_EQ(chosen[2].example, 0u);
}

}  // namespace
}  // namespace fulcrum::select
