#include <gtest/gtest.h>

#include "stages/consensus/consensus.h"
#include "tests/unit/stages/consensus/crowd.h"

namespace fulcrum::consensus {
namespace {

TEST(CohenKappaTest, KnownValue) {
  // 20 times both say yes, 15 times both say no, 5 and 10 times one of each.
  std::vector<ClassIndex> first, second;
  const auto add = [&](int count, ClassIndex a, ClassIndex b) {
    first.insert(first.end(), static_cast<std::size_t>(count), a);
    second.insert(second.end(), static_cast<std::size_t>(count), b);
  };
  add(20, 1, 1);
  add(5, 1, 0);
  add(10, 0, 1);
  add(15, 0, 0);
  EXPECT_NEAR(*CohenKappa(first, second, 2), 0.4, 1e-12);
  EXPECT_EQ(CohenKappa({}, {}, 2), std::nullopt);
  EXPECT_EQ(CohenKappa(std::vector<ClassIndex>{1, 1}, std::vector<ClassIndex>{1, 1}, 2), std::nullopt);
}

TEST(FleissKappaTest, KnownValue) {
  // The example of Fleiss: ten subjects, fourteen raters, five categories.
  const int table[10][5] = {{0, 0, 0, 0, 14}, {0, 2, 6, 4, 2}, {0, 0, 3, 5, 6}, {0, 3, 9, 2, 0}, {2, 2, 8, 1, 1},
                            {7, 7, 0, 0, 0},  {3, 2, 6, 3, 0}, {2, 5, 3, 2, 2}, {6, 5, 2, 1, 0}, {0, 2, 2, 3, 7}};
  std::vector<Vote> votes;
  for (std::uint32_t i = 0; i < 10; ++i) {
    std::uint32_t rater = 0;
    for (ClassIndex c = 0; c < 5; ++c) {
      for (int k = 0; k < table[i][c]; ++k) votes.push_back({i, rater++, c});
    }
  }
  EXPECT_NEAR(*FleissKappa(votes, 10, 5), 0.210, 5e-4);
}

TEST(KrippendorffAlphaTest, KnownValue) {
  // Three coders, fifteen units, with missing answers; 0 is none.
  const int answers[3][15] = {{0, 0, 0, 0, 0, 3, 4, 1, 2, 1, 1, 3, 3, 0, 3},
                              {1, 0, 2, 1, 3, 3, 4, 3, 0, 0, 0, 0, 0, 0, 0},
                              {0, 0, 2, 1, 3, 4, 4, 0, 2, 1, 1, 3, 3, 0, 4}};
  std::vector<Vote> votes;
  for (std::uint32_t a = 0; a < 3; ++a) {
    for (std::uint32_t i = 0; i < 15; ++i) {
      if (answers[a][i] > 0) votes.push_back({i, a, answers[a][i] - 1});
    }
  }
  EXPECT_NEAR(*KrippendorffAlpha(votes, 15, 4), 0.691, 5e-4);
  EXPECT_EQ(KrippendorffAlpha({}, 15, 4), std::nullopt);
}

TEST(AgreementTest, ChanceIsZeroAndTheBetterAnnotatorsAgreeMore) {
  const double chance[] = {0.5, 0.5, 0.5};
  const testing::Crowd guesses = testing::MakeCrowd(chance, 3000, 3, 2, 1);
  EXPECT_NEAR(*FleissKappa(guesses.votes, 3000, 2), 0, 0.03);
  EXPECT_NEAR(*KrippendorffAlpha(guesses.votes, 3000, 2), 0, 0.03);
  const double mixed[] = {0.95, 0.95, 0.5};
  const testing::Crowd crowd = testing::MakeCrowd(mixed, 2000, 3, 2, 2);
  const PairwiseKappa kappa = MeanCohenKappa(crowd.votes, 3, 2);
  EXPECT_GT(*kappa.of_annotator[0], 0.35);
  EXPECT_NEAR(*kappa.of_annotator[2], 0, 0.05);
  EXPECT_FALSE(MeanCohenKappa(std::vector<Vote>{{0, 0, 1}}, 1, 2).overall.has_value());
}

}  // namespace
}  // namespace fulcrum::consensus
