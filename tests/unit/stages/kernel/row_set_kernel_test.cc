#include <algorithm>
#include <numeric>
#include <set>

#include "gtest/gtest.h"
#include "stages/core/random.h"
#include "stages/kernel/kernel_function.h"
#include "tests/support/matrices.h"

namespace fulcrum::kernel {
namespace {

constexpr std::size_t kPool = 400;
const KernelFunction kRbf{.type = KernelType::kRbf, .sigma = 2};

RowList RandomSubset(std::size_t size, Random& random) {
  RowList rows(kPool);
  std::iota(rows.begin(), rows.end(), 0);
  random.Shuffle(std::span(rows));
  rows.resize(size);
  return rows;
}

class RowSetKernelTest : public ::testing::Test {
 protected:
  void ExpectHolds(const RowSetKernel& set, const RowList& rows) {
    ASSERT_EQ(std::set<RowIndex>(set.rows().begin(), set.rows().end()), std::set<RowIndex>(rows.begin(), rows.end()));
    ASSERT_EQ(set.rows().size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(set.PositionOf(set.rows()[i]), i);
      for (std::size_t j = 0; j < rows.size(); ++j) {
        ASSERT_NEAR(set.matrix()(i, j), expected_(set.rows()[i], set.rows()[j]), 1e-13) << i << ", " << j;
      }
    }
  }

  Matrix<double> points_ = testing::RandomMatrix(kPool, 6, 1);
  DenseFeatures features_{points_.Clone()};
  Matrix<double> expected_ = testing::NaiveKernel(kRbf, points_.view(), points_.view());
};

TEST_F(RowSetKernelTest, IsRightAfterAnyHistoryOfSmallAndLargeChanges) {
  RowSetKernel set(kRbf, features_);
  Random random(7);
  RowList rows = RandomSubset(150, random);
  set.Update(rows);
  ExpectHolds(set, rows);
  for (int step = 0; step < 30; ++step) {
    // Some leave, some enter, so that holes are more, fewer or as many as newcomers.
    const std::size_t leaving = std::min<std::size_t>(random.Below(20), rows.size());
    rows.resize(rows.size() - leaving);
    for (RowIndex row : RandomSubset(random.Below(40), random)) {
      if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
    }
    random.Shuffle(std::span(rows));
    set.Update(rows);
    ExpectHolds(set, rows);
  }
}

TEST_F(RowSetKernelTest, SaysWhatChanged) {
  RowSetKernel set(kRbf, features_);
  Random random(8);
  RowList rows = RandomSubset(100, random);
  EXPECT_TRUE(set.Update(rows).rebuilt);
  const RowIndex gone = rows.back();
  rows.pop_back();
  for (RowIndex row = 0; rows.size() < 101; ++row) {
    if (row != gone && std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
  }
  const auto stats = set.Update(rows);
  EXPECT_FALSE(stats.rebuilt);
  EXPECT_EQ(stats.left, 1u);
  EXPECT_EQ(stats.entered, 2u);
  EXPECT_FALSE(set.Contains(gone));
}

TEST_F(RowSetKernelTest, CanBeEmptiedAndFilledAgain) {
  RowSetKernel set(kRbf, features_);
  set.Update(RowList{1, 2, 3});
  set.Update(RowList{});
  EXPECT_TRUE(set.rows().empty());
  EXPECT_FALSE(set.Contains(2));
  set.Update(RowList{5, 2});
  ExpectHolds(set, {5, 2});
}

}  // namespace
}  // namespace fulcrum::kernel
