#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "pipeline/experiment/task_data.h"
#include "tests/support/temporary_directory.h"

namespace fulcrum::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunSplitsTest : public ::testing::Test {
 protected:
  RunSplitsTest() {
    data_.features = Matrix<double>::Zero(kRows, 1);
    for (std::size_t row = 0; row < kRows; ++row) data_.labels.push_back(row % 3 == 0 ? 1 : 0);
    data_.class_names = {"-1", "1"};
    task_.name = "t";
  }

  absl::StatusOr<Split> Make(std::size_t run) {
    auto splits = RunSplits::Load(spec_, task_, data_, folder_.path());
    if (!splits.ok()) return splits.status();
    return splits->Make(run);
  }
  std::size_t CountOf(const RowList& rows, ClassIndex label) const {
    return static_cast<std::size_t>(std::ranges::count_if(rows, [&](RowIndex r) { return data_.labels[r] == label; }));
  }

  static constexpr std::size_t kRows = 61;
  testing::TemporaryDirectory folder_;
  ExperimentSpec spec_;
  TaskSettings task_;
  TaskData data_;
};

TEST_F(RunSplitsTest, SeededHalvesPartTheDataAndStartWithTwoOfEachClass) {
  const auto split = Make(4);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_FALSE(split->given_halves);
  EXPECT_EQ(split->train.size(), 30u);
  EXPECT_EQ(split->test.size(), 31u);
  std::set<RowIndex> all(split->train.begin(), split->train.end());
  all.insert(split->test.begin(), split->test.end());
  EXPECT_EQ(all.size(), kRows);
  EXPECT_EQ(CountOf(split->start, 0), 2u);
  EXPECT_EQ(CountOf(split->start, 1), 2u);
  for (const RowIndex row : split->start) EXPECT_TRUE(std::ranges::binary_search(split->train, row));
}

TEST_F(RunSplitsTest, TheSameSeedGivesTheSameAndRunsTasksAndSeedsDiffer) {
  const Split first = *Make(0);
  EXPECT_EQ(Make(0)->train, first.train);
  EXPECT_EQ(Make(0)->start, first.start);
  EXPECT_NE(Make(1)->train, first.train);
  task_.name = "other";
  EXPECT_NE(Make(0)->train, first.train);
  task_.name = "t";
  spec_.seed = 2;
  EXPECT_NE(Make(0)->train, first.train);
}

TEST_F(RunSplitsTest, GivenFilesAreUsedAsFarAsTheyGo) {
  folder_.Write("train.csv", "5,3,4,0,1,2,6\n10,11,12,13,14,15\n");
  folder_.Write("start.csv", "0,1,3,2\n");
  task_.train_splits = "train.csv";
  task_.starts = "start.csv";
  const auto first = Make(0);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->given_halves && first->given_start);
  EXPECT_THAT(first->train, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_EQ(first->test.size(), kRows - 7);
  EXPECT_THAT(first->start, ElementsAre(0, 1, 2, 3));
  const auto second = Make(1);
  EXPECT_TRUE(second->given_halves);
  EXPECT_FALSE(second->given_start);
  EXPECT_EQ(second->start.size(), 4u);
  EXPECT_FALSE(Make(2)->given_halves);
}

TEST_F(RunSplitsTest, FilesThatDoNotFitAreRefusedWithTheirLine) {
  task_.train_splits = "train.csv";
  folder_.Write("train.csv", "0,1,2\n0,61\n");
  EXPECT_THAT(std::string(Make(0).status().message()),
              HasSubstr("line 2: row 61 does not exist; the data has 61 rows"));
  folder_.Write("train.csv", "0,1,x\n");
  EXPECT_THAT(std::string(Make(0).status().message()), HasSubstr("line 1: 'x' is no row number"));
  folder_.Write("train.csv", "0,1,1\n");
  EXPECT_THAT(std::string(Make(0).status().message()), HasSubstr("row 1 comes twice"));
  folder_.Write("train.csv", "0,1,2,3,4,5\n");
  task_.starts = "start.csv";
  folder_.Write("start.csv", "0,9\n");
  EXPECT_THAT(std::string(Make(0).status().message()), HasSubstr("row 9 is not in the training half"));
  folder_.Write("start.csv", "1,2\n");
  EXPECT_THAT(std::string(Make(0).status().message()), HasSubstr("no row has the class '1'"));
}

TEST_F(RunSplitsTest, ImbalanceKeepsTheAskedForRatio) {
  task_.imbalance = ImbalanceSettings{.majority = "-1", .ratio = 5};
  const auto split = Make(0);
  ASSERT_TRUE(split.ok()) << split.status();
  RowList kept = split->train;
  kept.insert(kept.end(), split->test.begin(), split->test.end());
  EXPECT_EQ(CountOf(kept, 0), 40u);
  EXPECT_EQ(CountOf(kept, 1), 8u);
  task_.imbalance->majority = "1";
  const auto other = Make(0);
  ASSERT_TRUE(other.ok()) << other.status();
  kept = other->train;
  kept.insert(kept.end(), other->test.begin(), other->test.end());
  EXPECT_EQ(CountOf(kept, 1), 21u);
  EXPECT_EQ(CountOf(kept, 0), 4u);
}

TEST_F(RunSplitsTest, AHalfWithTooFewOfAClassIsAnError) {
  std::ranges::fill(data_.labels, 0);
  data_.labels[7] = 1;
  EXPECT_THAT(std::string(Make(0).status().message()), HasSubstr("rows of class '1'; the start needs 2"));
}

}  // namespace
}  // namespace fulcrum::pipeline
