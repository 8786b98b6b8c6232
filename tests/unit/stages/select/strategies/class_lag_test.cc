#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stages/select/strategies/strategy_parts.h"

namespace fulcrum::select {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::size_t kCandidates = 64;

/// Candidate i is the likelier of class 0 the larger i is, and of class 1 the smaller.
Matrix<double> RisingMeans() {
  Matrix<double> means(kCandidates, 2);
  for (std::size_t i = 0; i < kCandidates; ++i) {
    means(i, 0) = static_cast<double>(i) - 31.5;
    means(i, 1) = -means(i, 0);
  }
  return means;
}

std::vector<bool> Eligible(std::vector<std::size_t> counts) {
  return EligibleForLaggingClass(counts, RisingMeans().view());
}

TEST(ClassLagTest, EveryoneMayBeAskedWhileNoClassLags) {
  EXPECT_THAT(Eligible({3, 3}), Each(true));
  EXPECT_THAT(Eligible({0, 0}), Each(true));
  EXPECT_THAT(Eligible({0, 7}), Each(true)) << "nothing is known of a class without labels";
}

TEST(ClassLagTest, EachLabelBehindHalvesWhoMayBeAsked) {
  for (const std::size_t behind : {1, 2, 3}) {
    const std::size_t kept = kCandidates >> behind;
    const std::vector<bool> for_first = Eligible({2, 2 + behind}), for_second = Eligible({2 + behind, 2});
    for (std::size_t i = 0; i < kCandidates; ++i) {
      EXPECT_EQ(for_first[i], i >= kCandidates - kept) << behind << " behind, candidate " << i;
      EXPECT_EQ(for_second[i], i < kept) << behind << " behind, candidate " << i;
    }
  }
}

TEST(ClassLagTest, OfManyClassesTheMeanOfTheOthersCounts) {
  Matrix<double> means = Matrix<double>::Zero(kCandidates, 4);
  for (std::size_t i = 0; i < kCandidates; ++i) means(i, 2) = static_cast<double>(i);
  // 9, 7 and 7 have two whole labels more on average; a class without labels is left out.
  EXPECT_EQ(std::ranges::count(EligibleForLaggingClass(std::vector<std::size_t>{9, 7, 5, 7}, means.view()), true),
            kCandidates / 4);
  EXPECT_EQ(std::ranges::count(EligibleForLaggingClass(std::vector<std::size_t>{9, 0, 6, 7}, means.view()), true),
            kCandidates / 4);
}

TEST(ClassLagTest, ARareClassIsLookedForAmongFewer) {
  Matrix<double> means = RisingMeans();
  for (std::size_t i = 0; i < kCandidates; ++i) means(i, 1) += 32;  // class 0 seems to have 16 of the 64
  EXPECT_EQ(std::ranges::count(EligibleForLaggingClass(std::vector<std::size_t>{2, 3}, means.view()), true), 16);
  EXPECT_EQ(std::ranges::count(EligibleForLaggingClass(std::vector<std::size_t>{2, 4}, means.view()), true), 8);
  EXPECT_EQ(std::ranges::count(EligibleForLaggingClass(std::vector<std::size_t>{3, 2}, means.view()), true), 32)
      << "a large class that lags is looked for in all of the pool";
}

TEST(ClassLagTest, FiveMayAlwaysBeAsked) {
  EXPECT_EQ(std::ranges::count(Eligible({2, 40}), true), 5);
  Matrix<double> three(3, 2);
  for (std::size_t i = 0; i < 3; ++i) three(i, 0) = three(i, 1) = static_cast<double>(i);
  EXPECT_THAT(EligibleForLaggingClass(std::vector<std::size_t>{2, 40}, three.view()), Each(true));
}

TEST(ClassLagTest, TargetsWeighBothSidesAlike) {
  const std::vector<ClassIndex> labels{0, kUnlabeled, 1, 1, 1, 2};
  const RowList labeled{0, 2, 3, 4, 5};
  const std::vector<std::size_t> counts = LabelCounts(labels, 3);
  EXPECT_THAT(counts, ElementsAre(1, 3, 1));
  const Matrix<double> targets = BalancedTargets(labels, labeled, counts);
  for (std::size_t c = 0; c < 3; ++c) {
    double own = 0, others = 0;
    for (std::size_t i = 0; i < labeled.size(); ++i) {
      (labels[labeled[i]] == static_cast<ClassIndex>(c) ? own : others) += targets(c, i);
    }
    EXPECT_DOUBLE_EQ(own, 2.5);
    EXPECT_DOUBLE_EQ(others, -2.5);
  }
}

TEST(ClassLagTest, TheLikelyClassHasTheLargestMean) {
  const Matrix<double> means = RisingMeans();
  const std::vector<std::size_t> likely = LikelyClasses(means.view());
  EXPECT_EQ(likely.front(), 1u);
  EXPECT_EQ(likely.back(), 0u);
}

}  // namespace
}  // namespace fulcrum::select
