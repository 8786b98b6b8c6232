#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/consensus/consensus.h"
#include "stages/core/random.h"

namespace fulcrum::consensus {
namespace {

TEST(LabelErrorsTest, SmallExampleByHand) {
  // Thresholds: class 0 is (0.9 + 0.8 + 0.1) / 3 = 0.6, class 1 is (0.7 + 0.3) / 2 = 0.5.
  Matrix<double> probabilities(6, 2);
  const double of_first[] = {0.9, 0.8, 0.1, 0.3, 0.7, 0.99};
  for (std::size_t i = 0; i < 6; ++i) {
    probabilities(i, 0) = of_first[i];
    probabilities(i, 1) = 1 - of_first[i];
  }
  const std::vector<ClassIndex> labels = {0, 0, 0, 1, 1, kUnlabeled};
  const std::vector<LabelError> errors = FindLabelErrors(labels, probabilities.view());
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].example, 2u);
  EXPECT_EQ(errors[0].suggested, 1);
  EXPECT_NEAR(errors[0].margin, 0.8, 1e-12);
  EXPECT_EQ(errors[1].example, 4u);
  EXPECT_EQ(errors[1].suggested, 0);
}

TEST(LabelErrorsTest, FindsFlippedLabels) {
  Random random(3);
  Matrix<double> probabilities(500, 3);
  std::vector<ClassIndex> labels;
  std::size_t flipped = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    const std::size_t truth = random.Below(3);
    for (std::size_t c = 0; c < 3; ++c) probabilities(i, c) = c == truth ? 0.8 : 0.1;
    const bool flip = i % 10 == 0;
    flipped += flip ? 1 : 0;
    labels.push_back(static_cast<ClassIndex>(flip ? (truth + 1) % 3 : truth));
  }
  const std::vector<LabelError> errors = FindLabelErrors(labels, probabilities.view());
  EXPECT_EQ(errors.size(), flipped);
  for (const LabelError& error : errors) EXPECT_EQ(error.example % 10, 0u);
}

}  // namespace
}  // namespace fulcrum::consensus
