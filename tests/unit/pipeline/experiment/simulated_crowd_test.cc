#include <gtest/gtest.h>

#include <numeric>

#include "pipeline/experiment/experiment_spec.h"

namespace fulcrum::pipeline {
namespace {

struct Outcome {
  double accuracy = 0;
  double decided = 0;
  std::size_t spammers = 0;
  std::size_t others = 0;
};

/// Rounds of 30 votes; means over ten seeds.
Outcome Simulate(const std::vector<SimulatedAnnotator>& annotators, const VotingRule& rule, std::size_t rounds) {
  Outcome outcome;
  constexpr int kRuns = 10;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    std::vector<ClassIndex> truth(2000), labels(2000, kUnlabeled);
    for (std::size_t i = 0; i < truth.size(); ++i) truth[i] = static_cast<ClassIndex>(i * 7 % 2);
    std::vector<double> weights(truth.size(), 1.0);
    SimulatedCrowd crowd(annotators, rule, 2, truth, seed);
    RowIndex next = 0;
    for (std::size_t round = 0; round < rounds; ++round) {
      RowList rows(30);
      std::iota(rows.begin(), rows.end(), next);
      next += 30;
      crowd.Ask(rows, 30, labels, weights);
      EXPECT_LE(crowd.votes(), 30 * (round + 1));
    }
    outcome.accuracy += *crowd.LabelAccuracy(labels) / kRuns;
    outcome.decided += static_cast<double>(crowd.decided()) / kRuns;
    outcome.spammers += crowd.paused_spammers();
    outcome.others += crowd.paused_others();
  }
  return outcome;
}

std::vector<SimulatedAnnotator> Five() {
  std::vector<SimulatedAnnotator> annotators;
  for (const double accuracy : {0.55, 0.65, 0.75, 0.85, 0.95}) annotators.push_back({.accuracy = {accuracy}});
  return annotators;
}

TEST(SimulatedCrowdTest, TheConsensusIsBetterThanTheMajorityForTheSameVotes) {
  const Outcome majority = Simulate(Five(), {.overlap = 3}, 10);
  const Outcome adaptive = Simulate(Five(), {.dawid_skene = true, .overlap = 0}, 10);
  EXPECT_NEAR(majority.decided, 100, 1e-9);
  EXPECT_GT(adaptive.accuracy, majority.accuracy + 0.03);
}

TEST(SimulatedCrowdTest, OneVoteEachIsTheVote) {
  EXPECT_NEAR(Simulate(Five(), {.overlap = 1}, 10).accuracy,
              Simulate(Five(), {.dawid_skene = true, .overlap = 1}, 10).accuracy, 1e-12);
}

TEST(SimulatedCrowdTest, SpammersArePausedAndOthersAreNot) {
  std::vector<SimulatedAnnotator> annotators(5, {.accuracy = {0.85}});
  annotators.push_back({.spammer = true});
  const Outcome outcome = Simulate(annotators, {.dawid_skene = true, .overlap = 0, .pause_below = 0.65}, 40);
  EXPECT_EQ(outcome.others, 0u);
  EXPECT_GE(outcome.spammers, 8u);
}

TEST(SimulatedCrowdTest, SkippedRowsAreAskedElsewhere) {
  std::vector<SimulatedAnnotator> annotators = {{.accuracy = {1}, .skip = 0.9}, {.accuracy = {1}}};
  const Outcome outcome = Simulate(annotators, {.overlap = 1}, 3);
  EXPECT_NEAR(outcome.accuracy, 1, 1e-12);
  EXPECT_NEAR(outcome.decided, 90, 1e-9);
}

TEST(SimulatedCrowdTest, AccuracyPerClass) {
  const std::vector<SimulatedAnnotator> annotators = {{.accuracy = {1, 0}}};
  EXPECT_NEAR(Simulate(annotators, {.overlap = 1}, 10).accuracy, 0.5, 1e-9);
}

}  // namespace
}  // namespace fulcrum::pipeline
