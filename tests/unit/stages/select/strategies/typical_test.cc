#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "stages/core/random.h"
#include "stages/select/strategy.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

/// Well separated groups of rows of different sizes, so that k-means has one result; a group is a cluster.
class TypicalTest : public ::testing::Test {
 protected:
  TypicalTest() {
    Random random(3);
    for (std::size_t group = 0; group < kSizes.size(); ++group) {
      for (std::size_t i = 0; i < kSizes[group]; ++i) group_of_.push_back(group);
    }
    values_ = Matrix<double>(group_of_.size(), 2);
    for (std::size_t i = 0; i < group_of_.size(); ++i) {
      values_(i, 0) = 100 * std::cos(static_cast<double>(group_of_[i])) + random.Normal();
      values_(i, 1) = 100 * std::sin(static_cast<double>(group_of_[i])) + random.Normal();
    }
    labels_.assign(group_of_.size(), kUnlabeled);
  }

  std::vector<RowIndex> Choose(std::size_t batch) {
    const kernel::DenseFeatures features(Matrix<double>::CopyOf(values_.view()));
    Candidates candidates;
    candidates.features = &features;
    candidates.class_count = 2;
    candidates.labels = labels_;
    candidates.batch = batch;
    const auto selection = MakeTypical()->Select(candidates);
    EXPECT_TRUE(selection.ok()) << selection.status();
    return RowsOf(*selection);
  }

  /// By the definition: the smallest mean distance to the 20 nearest of the group.
  RowIndex MostTypicalOf(std::size_t group) const {
    RowIndex best = 0;
    double least = 1e300;
    for (RowIndex row = 0; row < group_of_.size(); ++row) {
      if (group_of_[row] != group || labels_[row] != kUnlabeled) continue;
      std::vector<double> distances;
      for (RowIndex other = 0; other < group_of_.size(); ++other) {
        if (other == row || group_of_[other] != group) continue;
        distances.push_back(std::hypot(values_(row, 0) - values_(other, 0), values_(row, 1) - values_(other, 1)));
      }
      std::ranges::sort(distances);
      distances.resize(std::min<std::size_t>(distances.size(), 20));
      double mean = 0;
      for (const double distance : distances) mean += distance / static_cast<double>(distances.size());
      if (mean < least) {
        least = mean;
        best = row;
      }
    }
    return best;
  }

  const std::vector<std::size_t> kSizes = {12, 40, 3, 25, 33};
  std::vector<std::size_t> group_of_;
  Matrix<double> values_;
  std::vector<ClassIndex> labels_;
};

TEST_F(TypicalTest, TakesTheMostTypicalOfEachClusterTheLargestFirst) {
  std::vector<RowIndex> expected = {MostTypicalOf(1), MostTypicalOf(4), MostTypicalOf(3), MostTypicalOf(0)};
  const std::vector<RowIndex> rows = Choose(5);
  // The cluster of three rows is too small: the largest one is next again.
  labels_[expected[0]] = 0;
  expected.push_back(MostTypicalOf(1));
  EXPECT_EQ(rows, expected);
}

TEST_F(TypicalTest, ClustersWithoutLabelsComeFirst) {
  // One label in each of the two largest groups: with three picks there are five clusters.
  for (const std::size_t group : {1, 4}) labels_[MostTypicalOf(group)] = 0;
  EXPECT_EQ(Choose(3), (std::vector<RowIndex>{MostTypicalOf(3), MostTypicalOf(0), MostTypicalOf(1)}));
}

TEST_F(TypicalTest, AStartWithoutLabelsNeedsNone) {
  EXPECT_FALSE(MakeTypical()->needs_labels());
  const std::vector<RowIndex> rows = Choose(113);
  EXPECT_EQ(std::set<RowIndex>(rows.begin(), rows.end()).size(), 113u);
}

}  // namespace
}  // namespace fulcrum::select
