#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stages/select/strategy.h"
#include "tests/unit/stages/select/small_pool.h"

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;

TEST(AlevsTest, TakesTheLargestUnlabeledScoreScaledInItsClass) {
  // Class 0: m/k = 3/1, class 1: m/k = 4/2. Rows 0 and 3 are labeled, and row 0 has the largest score of all.
  const std::vector<ClassIndex> labels = {0, -1, -1, 1, -1, -1, -1};
  const RowList rows_0 = {0, 1, 2}, rows_1 = {6, 5, 4, 3};
  const std::vector<double> leverage_0 = {0.6, 0.1, 0.3}, leverage_1 = {0.4, 0.5, 0.4, 0.7};
  const std::vector<Group> groups = {{.class_index = 0, .rows = rows_0, .leverage = leverage_0, .rank = 1},
                                     {.class_index = 1, .rows = rows_1, .leverage = leverage_1, .rank = 2}};
  Candidates candidates;
  candidates.labels = labels;
  candidates.groups = groups;
  candidates.batch = 4;
  const auto selection = MakeAlevs()->Select(candidates);
  ASSERT_TRUE(selection.ok());
  // Scaled: row 1 .3, row 2 .9, row 4 .8, row 5 1.0, row 6 .8.
  EXPECT_THAT(RowsOf(*selection), ElementsAre(5, 2, 4, 6));
  EXPECT_DOUBLE_EQ(selection->picks[1].gain, 0.9);
  EXPECT_DOUBLE_EQ(selection->picks[1].leverage, 0.3);
  EXPECT_EQ(selection->picks[1].class_index, 0);
  EXPECT_EQ(selection->picks[0].class_index, 1);
  EXPECT_FALSE(selection->has_certificate);
}

TEST(AlevsTest, PassesOverEmptyAndFullyLabeledGroups) {
  const std::vector<ClassIndex> labels = {0, -1, 2};
  const RowList rows_0 = {0, 1}, rows_2 = {2};
  const std::vector<double> leverage_0 = {0.5, 0.5}, leverage_2 = {1.0};
  const std::vector<Group> groups = {{.class_index = 0, .rows = rows_0, .leverage = leverage_0, .rank = 1},
                                     {.class_index = 1},
                                     {.class_index = 2, .rows = rows_2, .leverage = leverage_2, .rank = 1}};
  Candidates candidates;
  candidates.labels = labels;
  candidates.groups = groups;
  candidates.batch = 3;
  const auto selection = MakeAlevs()->Select(candidates);
  ASSERT_TRUE(selection.ok());
  EXPECT_THAT(RowsOf(*selection), ElementsAre(1));
}

}  // namespace
}  // namespace fulcrum::select
