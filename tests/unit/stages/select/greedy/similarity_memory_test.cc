#include <gtest/gtest.h>

#include <algorithm>

#include "stages/select/greedy/streamed_greedy.h"
#include "tests/support/matrices.h"

namespace fulcrum::select {
namespace {

constexpr kernel::KernelFunction kMemoryRbf{.type = kernel::KernelType::kRbf, .sigma = 2};
constexpr RowIndex kMemorySize = 900;

RowList Every(RowIndex step, RowIndex first = 0) {
  RowList rows;
  for (RowIndex row = first; row < kMemorySize; row += step) rows.push_back(row);
  return rows;
}

class SimilarityMemoryTest : public ::testing::Test {
 protected:
  std::vector<double> Afresh(const RowList& rows, const RowList& given) const {
    SimilaritySums sums(kMemoryRbf, features_, rows);
    EXPECT_TRUE(sums.Add(given).ok());
    return sums.Release();
  }

  void ExpectRecalls(const RowList& rows, const RowList& given) {
    const auto sums = memory_.Recall(kMemoryRbf, features_, rows, given);
    ASSERT_TRUE(sums.ok()) << sums.status();
    const std::vector<double> expected = Afresh(rows, given);
    ASSERT_EQ(sums->size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR((*sums)[i], expected[i], 1e-5) << i;
  }

  kernel::DenseFeatures features_{testing::RandomMatrix(kMemorySize, 5, 1)};
  SimilarityMemory memory_;
};

TEST_F(SimilarityMemoryTest, KnowsNothingAtFirst) {
  ExpectRecalls(Every(2), Every(50));
  EXPECT_EQ(memory_.TakeCarried(), 0u);
}

TEST_F(SimilarityMemoryTest, AddsWhatIsNewAndTakesAwayWhatIsGone) {
  const RowList rows = Every(2), given = Every(50);
  memory_.Remember(rows, {}, {given, Afresh(rows, given)});
  RowList rows_now = Every(2, 20), given_now = given;
  rows_now.insert(rows_now.end(), {21, 23, 401});
  std::ranges::sort(rows_now);
  given_now.erase(given_now.begin() + 3);
  given_now.push_back(873);
  ExpectRecalls(rows_now, given_now);
  EXPECT_EQ(memory_.TakeCarried(), given.size() - 1);
}

TEST_F(SimilarityMemoryTest, WhatWasRememberedIsWhatIsUsed) {
  const RowList rows = Every(2), given = Every(50);
  memory_.Remember(rows, {}, {given, std::vector<double>(rows.size(), 7)});
  EXPECT_EQ(*memory_.Recall(kMemoryRbf, features_, rows, given), std::vector<double>(rows.size(), 7));
}

TEST_F(SimilarityMemoryTest, TakesWhatLeavesLessToDo) {
  const RowList rows = Every(2), labeled = Every(50), with_picks = Every(10);
  const GivenSums known{labeled, Afresh(rows, labeled)}, picked{with_picks, Afresh(rows, with_picks)};
  memory_.Remember(rows, known, picked);
  ExpectRecalls(rows, labeled);
  EXPECT_EQ(memory_.TakeCarried(), labeled.size()) << "no pick stayed";
  ExpectRecalls(rows, with_picks);
  EXPECT_EQ(memory_.TakeCarried(), with_picks.size()) << "all stayed";
}

TEST_F(SimilarityMemoryTest, BeginsAfreshIfThatIsLessWork) {
  const RowList rows = Every(2), given = Every(50);
  memory_.Remember(rows, {}, {given, Afresh(rows, given)});
  ExpectRecalls(Every(2, 1), given);
  EXPECT_EQ(memory_.TakeCarried(), 0u) << "nobody stayed";
  ExpectRecalls(rows, Every(50, 1));
  EXPECT_EQ(memory_.TakeCarried(), 0u) << "nobody of the given stayed";
}

}  // namespace
}  // namespace fulcrum::select
