#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stages/select/greedy/streamed_greedy.h"

namespace fulcrum::select {
namespace {

using ::testing::ElementsAre;

class SettledScoresTest : public ::testing::Test {
 protected:
  /// What was known of twelve candidates, and the truth.
  SettledScores Make() {
    return SettledScores(std::vector<double>(12, 0.5), 0.1, [this](std::span<const std::size_t> positions) {
      asked_.emplace_back(positions.begin(), positions.end());
      return std::vector<double>(positions.size(), 0.45);
    });
  }
  std::vector<std::vector<std::size_t>> asked_;
};

TEST_F(SettledScoresTest, CountsTheMostThatACandidateCanHaveUntilItIsSettled) {
  SettledScores scores = Make();
  EXPECT_DOUBLE_EQ(scores.AtMost(3), 0.6);
  EXPECT_TRUE(scores.Settle(std::vector<std::size_t>{3, 5}));
  EXPECT_DOUBLE_EQ(scores.AtMost(3), 0.45);
  EXPECT_DOUBLE_EQ(scores.AtMost(4), 0.6);
}

TEST_F(SettledScoresTest, AsksOnceForEach) {
  SettledScores scores = Make();
  EXPECT_TRUE(scores.Settle(std::vector<std::size_t>{3, 5}));
  EXPECT_TRUE(scores.Settle(std::vector<std::size_t>{5, 6}));
  EXPECT_FALSE(scores.Settle(std::vector<std::size_t>{3, 6}));
  EXPECT_THAT(asked_, ElementsAre(ElementsAre(3, 5), ElementsAre(6)));
}

TEST_F(SettledScoresTest, AsksForEveryoneOnceManyWereAskedFor) {
  SettledScores scores = Make();
  EXPECT_TRUE(scores.Settle(std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(scores.Settle(std::vector<std::size_t>{4}));
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[1].size(), 12u);
  EXPECT_FALSE(scores.Settle(std::vector<std::size_t>{11}));
  EXPECT_DOUBLE_EQ(scores.AtMost(11), 0.45);
}

TEST_F(SettledScoresTest, WithoutASlackThereIsNothingToAsk) {
  SettledScores scores(std::vector<double>{0.1, 0.2}, 0, {});
  EXPECT_FALSE(scores.Settle(std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(scores.AtMost(1), 0.2);
}

}  // namespace
}  // namespace fulcrum::select
