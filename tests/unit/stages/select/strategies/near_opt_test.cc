#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stages/core/random.h"
#include "stages/select/strategy.h"

namespace fulcrum::select {
namespace {

/// Points on a line from -1 to 1; those at the ends are labeled.
struct Line {
  explicit Line(std::size_t rows) : features(Points(rows)), labels(rows, kUnlabeled) {
    labels.front() = 0;
    labels.back() = 1;
  }
  static Matrix<double> Points(std::size_t rows) {
    Matrix<double> points(rows, 1);
    for (std::size_t i = 0; i < rows; ++i)
      points(i, 0) = -1 + 2 * static_cast<double>(i) / static_cast<double>(rows - 1);
    return points;
  }
  Candidates candidates(std::size_t batch) const {
    Candidates result;
    result.features = &features;
    result.class_count = 2;
    result.labels = labels;
    result.batch = batch;
    return result;
  }
  kernel::DenseFeatures features;
  std::vector<ClassIndex> labels;
};

TEST(NearOptTest, OnALineTheFirstPickHalvesTheVersionSpace) {
  // The classifiers that separate the ends cut the line somewhere between, symmetrically: a pick near the middle.
  const Line line(201);
  const auto selection = MakeNearOpt()->Select(line.candidates(1));
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_NEAR(static_cast<double>(selection->picks[0].row), 100, 12);
  // Half of the pairs disagree, and a label with 2% noise removes nearly all of their mass.
  EXPECT_NEAR(selection->picks[0].gain, 0.5, 0.03);
}

TEST(NearOptTest, ABatchOfThreeCutsTheVersionSpaceInQuarters) {
  const Line line(201);
  const auto selection = MakeNearOpt()->Select(line.candidates(3));
  ASSERT_TRUE(selection.ok());
  EXPECT_NEAR(selection->picks[1].gain + selection->picks[2].gain, 0.25, 0.05);
  const double second = selection->picks[1].row, third = selection->picks[2].row;
  EXPECT_LT((second - 100) * (third - 100), 0) << "one on each side of the first, not " << second << ", " << third;
}

TEST(NearOptTest, ThePickDependsOnTheSeedAlone) {
  const Line line(50);
  Candidates candidates = line.candidates(5);
  const auto first = MakeNearOpt()->Select(candidates);
  const auto again = MakeNearOpt()->Select(candidates);
  candidates.seed = 2;
  const auto other = MakeNearOpt()->Select(candidates);
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(first->picks[i].row, again->picks[i].row);
    EXPECT_EQ(first->picks[i].gain, again->picks[i].gain);
  }
  EXPECT_NE(first->picks[0].gain, other->picks[0].gain);
}

}  // namespace
}  // namespace fulcrum::select
