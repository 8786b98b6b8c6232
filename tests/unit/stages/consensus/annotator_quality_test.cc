#include <gtest/gtest.h>

#include <cmath>

#include "stages/consensus/consensus.h"
#include "tests/unit/stages/consensus/crowd.h"

namespace fulcrum::consensus {
namespace {

TEST(WilsonIntervalTest, KnownValue) {
  EXPECT_NEAR(WilsonInterval(8, 10).low, 0.4902, 1e-4);
  EXPECT_NEAR(WilsonInterval(8, 10).high, 0.9433, 1e-4);
  EXPECT_EQ(WilsonInterval(0, 0).low, 0);
  EXPECT_EQ(WilsonInterval(0, 0).high, 1);
}

TEST(WilsonIntervalTest, ContainsTheShareAlsoAtItsEnds) {
  for (double total = 0.3; total < 200; total *= 1.07) {
    EXPECT_EQ(WilsonInterval(total, total).high, 1) << total;
    EXPECT_EQ(WilsonInterval(0, total).low, 0) << total;
  }
}

TEST(AnnotatorQualityTest, TheIntervalCoversTheTrueAccuracy) {
  const double accuracies[] = {0.55, 0.65, 0.75, 0.85, 0.95};
  int covered = 0, judged = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const testing::Crowd crowd = testing::MakeCrowd(accuracies, 200, 3, 3, seed);
    const ConsensusProblem problem = crowd.Problem(5);
    const auto qualities = JudgeAnnotators(problem, EstimateConsensus(problem));
    for (std::size_t a = 0; a < 5; ++a) {
      EXPECT_LE(qualities[a].effective_votes, static_cast<double>(qualities[a].votes));
      covered += qualities[a].interval.low <= accuracies[a] && accuracies[a] <= qualities[a].interval.high ? 1 : 0;
      ++judged;
    }
  }
  EXPECT_GE(covered, judged * 92 / 100) << "of " << judged;
}

TEST(AnnotatorQualityTest, LonelyVotesSayLittleAndGoldVotesSayMuch) {
  std::vector<Vote> votes;
  for (std::uint32_t i = 0; i < 50; ++i) votes.push_back({i, 0, static_cast<ClassIndex>(i % 2)});
  ConsensusProblem problem = {.items = 50, .annotators = 1, .classes = 2, .votes = votes};
  EXPECT_LT(JudgeAnnotators(problem, EstimateConsensus(problem))[0].effective_votes, 1);
  std::vector<ClassIndex> known(50, 0);
  problem.known = known;
  const AnnotatorQuality quality = JudgeAnnotators(problem, EstimateConsensus(problem))[0];
  EXPECT_EQ(quality.effective_votes, 50);
  EXPECT_EQ(quality.gold_votes, 50u);
  EXPECT_EQ(quality.gold_right, 25u);
  EXPECT_NEAR(quality.accuracy, 0.5, 1e-12);
}

TEST(AnnotatorQualityTest, DriftIsSeen) {
  const double accuracies[] = {0.9, 0.9, 0.9, 0.9};
  testing::Crowd crowd = testing::MakeCrowd(accuracies, 400, 3, 2, 4);
  for (Vote& vote : crowd.votes) {
    // From the middle on, annotator 0 always gives the first class.
    if (vote.annotator == 0 && vote.item >= 200) vote.value = 0;
  }
  const ConsensusProblem problem = crowd.Problem(4);
  const auto qualities = JudgeAnnotators(problem, EstimateConsensus(problem));
  EXPECT_LT(*qualities[0].drift_z, -3);
  EXPECT_LT(*qualities[0].recent, 0.7);
  for (std::size_t a = 1; a < 4; ++a) EXPECT_LT(std::abs(*qualities[a].drift_z), 3);
}

}  // namespace
}  // namespace fulcrum::consensus
