#include "stages/select/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(UnlabeledRowsTest, ListsRowsWithoutALabelAscending) {
  EXPECT_THAT(UnlabeledRows(std::vector<ClassIndex>{kUnlabeled, 1, 0, kUnlabeled, kUnlabeled}), ElementsAre(0, 3, 4));
  EXPECT_THAT(UnlabeledRows(std::vector<ClassIndex>{0, 1}), IsEmpty());
}

TEST(TopByScoreTest, BestFirstAndTiesToTheSmallerRow) {
  const RowList rows = {9, 4, 7, 2, 5};
  const std::vector<double> scores = {0.5, 0.5, 0.9, 0.1, 0.5};
  std::vector<RowIndex> picked;
  for (const Pick& pick : TopByScore(rows, scores, 4)) picked.push_back(pick.row);
  EXPECT_THAT(picked, ElementsAre(7, 4, 5, 9));
  EXPECT_EQ(TopByScore(rows, scores, 1).front().gain, 0.9);
}

TEST(TopByScoreTest, GivesAllThereIsWhenThatIsLess) {
  EXPECT_EQ(TopByScore(RowList{3, 1}, std::vector<double>{1, 2}, 10).size(), 2u);
  EXPECT_THAT(TopByScore(RowList{}, std::vector<double>{}, 10), IsEmpty());
}

}  // namespace
}  // namespace fulcrum::select
