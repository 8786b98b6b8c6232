#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

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

TEST(SimulatedCrowdTest, ADoubtfulLabelWeighsItsProbabilityOrWhatThatIsAboveChance) {
  const std::vector<ClassIndex> truth(10, 0);
  RowList rows(10);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  const auto weights_of = [&](const VotingRule& rule) {
    std::vector<ClassIndex> labels(10, kUnlabeled);
    std::vector<double> weights(10, 1.0);
    SimulatedCrowd crowd({{}}, rule, 2, truth, 3);
    crowd.Ask(rows, 10, labels, weights);
    EXPECT_EQ(crowd.decided(), 10u);
    return weights;
  };
  const std::vector<double> probable = weights_of({.dawid_skene = true});
  const std::vector<double> excess = weights_of({.dawid_skene = true, .excess_weights = true});
  for (std::size_t i = 0; i < probable.size(); ++i) {
    EXPECT_GT(probable[i], 0.5);
    EXPECT_LT(probable[i], 0.95);
    EXPECT_NEAR(excess[i], probable[i] - (1 - probable[i]), 1e-9);
  }
  for (const double weight : weights_of({.dawid_skene = true, .weights = false})) EXPECT_EQ(weight, 1);
}

TEST(SimulatedCrowdTest, AFirstVoteThatIsProbableEnoughIsALabel) {
  const auto decided = [](double first_confidence) {
    return Simulate(Five(), {.dawid_skene = true, .overlap = 0, .first_confidence = first_confidence}, 10).decided;
  };
  EXPECT_GT(decided(0.8), 1.3 * decided(0.95));
  EXPECT_EQ(decided(0.95), decided(1));
}

TEST(SimulatedCrowdTest, WhoIsFreeFirstIsAskedAndARoundEndsWithItsLastAnswer) {
  std::vector<ClassIndex> truth(400, 0), labels(400, kUnlabeled);
  std::vector<double> weights(truth.size(), 1.0);
  RowList rows(400);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  const auto ask = [&](const std::vector<SimulatedAnnotator>& annotators) {
    SimulatedCrowd crowd(annotators, {.overlap = 1}, 2, truth, 3);
    EXPECT_EQ(crowd.seconds(), 0);
    crowd.Ask(rows, 400, labels, weights);
    EXPECT_EQ(crowd.votes(), 400u);
    return std::pair(crowd.seconds(), crowd.cost());
  };
  const auto [alone, price] = ask({{.seconds = 10, .cost = 0.5}});
  EXPECT_NEAR(alone, 4000, 400);
  EXPECT_EQ(price, 200);
  // Five answers of the fast one in the time of one of the slow one: 400 / (1/10 + 1/50) seconds, and four fifths of
  // the answers cost something.
  const auto [both, price_of_both] = ask({{.seconds = 10, .cost = 1}, {.seconds = 50}});
  EXPECT_NEAR(both, 3333, 333);
  EXPECT_NEAR(price_of_both, 333, 20);
  EXPECT_EQ(ask({{.seconds = 10, .cost = 1}, {.seconds = 50}}), std::pair(both, price_of_both));
  EXPECT_EQ(ask({{}}).first, 0);
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

/// What a classifier that is right with probability p in every row says.
Matrix<double> VoiceOf(std::span<const ClassIndex> truth, double p) {
  Matrix<double> voice(truth.size(), 2);
  for (std::size_t row = 0; row < truth.size(); ++row) {
    for (std::size_t c = 0; c < 2; ++c) voice(row, c) = static_cast<std::size_t>(truth[row]) == c ? p : 1 - p;
  }
  return voice;
}

TEST(SimulatedCrowdTest, AClassifierThatIsHeardSavesVotes) {
  std::vector<ClassIndex> truth(500, 0), labels(500, kUnlabeled);
  std::vector<double> weights(500, 1.0);
  RowList rows(100);
  std::iota(rows.begin(), rows.end(), RowIndex{0});
  std::size_t decided[2] = {};
  for (const bool heard : {false, true}) {
    SimulatedCrowd crowd(Five(), {.dawid_skene = true, .overlap = 0}, 2, truth, 1);
    if (heard) crowd.Hear(VoiceOf(truth, 0.9));
    crowd.Ask(rows, 100, labels, weights);
    decided[heard ? 1 : 0] = crowd.decided();
  }
  EXPECT_GT(decided[1], decided[0] + 5);
}

TEST(SimulatedCrowdTest, ALabelInDoubtIsAskedAboutAgainIfANewRowSaysLess) {
  const std::vector<ClassIndex> truth(500, 0);
  for (const bool doubt : {false, true}) {
    std::vector<ClassIndex> labels(500, kUnlabeled);
    std::vector<double> weights(500, 1.0);
    SimulatedCrowd crowd(std::vector<SimulatedAnnotator>(5, {.accuracy = {0.9}}), {.dawid_skene = true, .overlap = 0},
                         2, truth, 1);
    RowList rows(30);
    std::iota(rows.begin(), rows.end(), RowIndex{0});
    crowd.Ask(rows, 60, labels, weights);
    const std::size_t before = crowd.decided();
    // Of new rows it is sure; of those that have labels it says the opposite, or nothing new.
    Matrix<double> voice = VoiceOf(truth, 0.999);
    for (std::size_t row = 0; row < 30; ++row) {
      voice(row, 0) = doubt ? 0 : 0.5;
      voice(row, 1) = 1 - voice(row, 0);
    }
    crowd.Hear(std::move(voice));
    std::iota(rows.begin(), rows.end(), RowIndex{100});
    crowd.Ask(rows, doubt ? 3 : 10, labels, weights);
    // New rows are decided by one vote each, unless the votes go to the labels in doubt.
    if (doubt) {
      EXPECT_LE(crowd.decided(), before);
      EXPECT_EQ(labels[100], kUnlabeled);
    } else {
      EXPECT_GE(crowd.decided(), before + 5);
    }
  }
}

TEST(SimulatedCrowdTest, AfterTheLastRoundVotesDecideAsTheyAre) {
  std::vector<ClassIndex> truth(50, 0), labels(50, kUnlabeled);
  std::vector<double> weights(50, 1.0);
  SimulatedCrowd crowd(Five(), {.dawid_skene = true, .overlap = 0}, 2, truth, 1);
  const RowList rows = {0, 1, 2};
  crowd.Ask(rows, 1, labels, weights);
  EXPECT_EQ(labels[0], kUnlabeled);
  EXPECT_EQ(crowd.Undecided(), RowList{0});
  crowd.AcceptVotes(labels, weights);
  EXPECT_NE(labels[0], kUnlabeled);
  EXPECT_GT(weights[0], 0.5);
  EXPECT_LT(weights[0], 0.95);
  EXPECT_TRUE(crowd.Undecided().empty());
}

TEST(SimulatedCrowdTest, AccuracyPerClass) {
  const std::vector<SimulatedAnnotator> annotators = {{.accuracy = {1, 0}}};
  EXPECT_NEAR(Simulate(annotators, {.overlap = 1}, 10).accuracy, 0.5, 1e-9);
}

}  // namespace
}  // namespace fulcrum::pipeline
