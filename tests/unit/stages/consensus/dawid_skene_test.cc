#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "stages/consensus/consensus.h"
#include "stages/core/random.h"
#include "tests/unit/stages/consensus/crowd.h"

namespace fulcrum::consensus {
namespace {

using ::fulcrum::testing::Crowd;
using ::fulcrum::testing::MajorityShareRight;
using ::fulcrum::testing::MakeCrowd;
using ::fulcrum::testing::ShareRight;

constexpr double kFive[] = {0.55, 0.65, 0.75, 0.85, 0.95};

/// Straight from the formulas in the header, with logarithms, a vote at a time, on one thread.
class NaiveEstimator {
 public:
  explicit NaiveEstimator(const ConsensusProblem& problem)
      : problem_(problem),
        posterior(problem.items, std::vector<double>(problem.classes, 1.0 / static_cast<double>(problem.classes))),
        priors(problem.classes) {
    for (const Vote& vote : problem.votes) posterior[vote.item][static_cast<std::size_t>(vote.value)] += 1;
    for (std::size_t i = 0; i < problem.items; ++i) {
      Scale(posterior[i]);
      Anchor(i);
    }
    Maximize();
  }

  void Iterate() {
    Expect();
    Maximize();
  }

  void Expect() {
    for (std::size_t i = 0; i < problem_.items; ++i) {
      std::vector<double> logs(problem_.classes);
      for (std::size_t c = 0; c < problem_.classes; ++c) logs[c] = std::log(priors[c]);
      for (const Vote& vote : problem_.votes) {
        if (vote.item != i) continue;
        for (std::size_t c = 0; c < problem_.classes; ++c) {
          logs[c] += std::log(confusion[vote.annotator][c][static_cast<std::size_t>(vote.value)]);
        }
      }
      for (std::size_t c = 0; c < problem_.classes; ++c) posterior[i][c] = std::exp(logs[c]);
      Scale(posterior[i]);
      Anchor(i);
    }
  }

 private:
  static void Scale(std::vector<double>& values) {
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    for (double& value : values) value /= sum;
  }
  void Anchor(std::size_t i) {
    if (problem_.known.empty() || problem_.known[i] == kUnlabeled) return;
    posterior[i].assign(problem_.classes, 0.0);
    posterior[i][static_cast<std::size_t>(problem_.known[i])] = 1;
  }
  void Maximize() {
    const std::size_t k = problem_.classes;
    std::vector<bool> voted(problem_.items, false);
    for (const Vote& vote : problem_.votes) voted[vote.item] = true;
    priors.assign(k, problem_.prior.class_items);
    for (std::size_t i = 0; i < problem_.items; ++i) {
      for (std::size_t c = 0; c < k && voted[i]; ++c) priors[c] += posterior[i][c];
    }
    Scale(priors);
    double right_of_all = problem_.prior.accuracy * problem_.prior.crowd_votes;
    for (const Vote& vote : problem_.votes) right_of_all += posterior[vote.item][static_cast<std::size_t>(vote.value)];
    crowd = right_of_all / (static_cast<double>(problem_.votes.size()) + problem_.prior.crowd_votes);
    confusion.assign(problem_.annotators, {});
    for (std::size_t a = 0; a < problem_.annotators; ++a) {
      double right = problem_.prior.annotator_votes * crowd, total = problem_.prior.annotator_votes;
      for (const Vote& vote : problem_.votes) {
        if (vote.annotator != a) continue;
        right += posterior[vote.item][static_cast<std::size_t>(vote.value)];
        total += 1;
      }
      for (std::size_t c = 0; c < k; ++c) {
        std::vector<double> row(k, problem_.prior.row_votes * (1 - right / total) / static_cast<double>(k - 1));
        row[c] = problem_.prior.row_votes * right / total;
        for (const Vote& vote : problem_.votes) {
          if (vote.annotator == a) row[static_cast<std::size_t>(vote.value)] += posterior[vote.item][c];
        }
        Scale(row);
        confusion[a].push_back(row);
      }
    }
  }

  const ConsensusProblem problem_;

 public:
  std::vector<std::vector<double>> posterior;
  std::vector<double> priors;
  double crowd = 0;
  std::vector<std::vector<std::vector<double>>> confusion;
};

void ExpectSame(const Consensus& result, const NaiveEstimator& naive) {
  for (std::size_t i = 0; i < naive.posterior.size(); ++i) {
    for (std::size_t c = 0; c < naive.priors.size(); ++c) {
      ASSERT_NEAR(result.posterior(i, c), naive.posterior[i][c], 1e-9) << "item " << i << ", class " << c;
    }
  }
  for (std::size_t a = 0; a < naive.confusion.size(); ++a) {
    for (std::size_t c = 0; c < naive.priors.size(); ++c) {
      for (std::size_t v = 0; v < naive.priors.size(); ++v) {
        ASSERT_NEAR(result.model.Likelihood(a, c, v), naive.confusion[a][c][v], 1e-9);
      }
    }
  }
  EXPECT_NEAR(result.model.crowd_accuracy, naive.crowd, 1e-9);
}

TEST(DawidSkeneTest, IsWhatTheFormulasSay) {
  for (const std::size_t classes : {2u, 4u}) {
    const Crowd crowd = MakeCrowd(kFive, 60, 3, classes, 5);
    const ConsensusProblem problem = crowd.Problem(5);
    NaiveEstimator naive(problem);
    for (int i = 0; i < 7; ++i) naive.Iterate();
    naive.Expect();
    ExpectSame(EstimateConsensus(problem, nullptr, {.iterations = 7, .tolerance = 0}), naive);
  }
}

TEST(DawidSkeneTest, GoldItemsAreAnchors) {
  const Crowd crowd = MakeCrowd(kFive, 60, 3, 3, 6);
  std::vector<ClassIndex> known(60, kUnlabeled);
  for (std::size_t i = 0; i < 15; ++i) known[i] = crowd.truth[i];
  ConsensusProblem problem = crowd.Problem(5);
  problem.known = known;
  NaiveEstimator naive(problem);
  for (int i = 0; i < 5; ++i) naive.Iterate();
  naive.Expect();
  const Consensus result = EstimateConsensus(problem, nullptr, {.iterations = 5, .tolerance = 0});
  ExpectSame(result, naive);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(result.posterior(i, static_cast<std::size_t>(known[i])), 1);
}

TEST(DawidSkeneTest, RecoversAccuraciesAndBeatsTheMajority) {
  double consensus = 0, majority = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Crowd crowd = MakeCrowd(kFive, 1000, 3, 2, seed);
    const Consensus result = EstimateConsensus(crowd.Problem(5));
    EXPECT_TRUE(result.converged);
    for (std::size_t a = 0; a < 5; ++a) EXPECT_NEAR(result.model.accuracy[a], kFive[a], 0.07);
    consensus += ShareRight(crowd, result) / 10;
    majority += MajorityShareRight(crowd) / 10;
  }
  EXPECT_GT(consensus, majority + 0.02);
}

TEST(DawidSkeneTest, AnAnnotatorWhoAlwaysSaysTheSameIsNoEvidence) {
  Crowd crowd = MakeCrowd(std::vector<double>{0.9, 0.9, 0.9}, 300, 3, 2, 3);
  for (Vote& vote : crowd.votes) {
    if (vote.annotator == 2) vote.value = 1;
  }
  const Consensus result = EstimateConsensus(crowd.Problem(3));
  const double ratio = result.model.Likelihood(2, 1, 1) / result.model.Likelihood(2, 0, 1);
  EXPECT_NEAR(ratio, 1, 0.1);
}

TEST(DawidSkeneTest, SingleVotesSayNothingAboutTheAnnotators) {
  const Crowd crowd = MakeCrowd(kFive, 300, 1, 2, 4);
  const Consensus result = EstimateConsensus(crowd.Problem(5));
  EXPECT_NEAR(result.model.crowd_accuracy, ConsensusPrior().accuracy, 1e-12);
  for (const Vote& vote : crowd.votes) {
    EXPECT_NEAR(result.posterior(vote.item, static_cast<std::size_t>(vote.value)), ConsensusPrior().accuracy, 1e-12);
  }
}

TEST(DawidSkeneTest, WarmStartEndsAtTheSameModelSooner) {
  Crowd crowd = MakeCrowd(kFive, 2000, 3, 3, 8);
  std::vector<Vote> all = crowd.votes;
  crowd.votes.resize(all.size() - 60);
  const Consensus before = EstimateConsensus(crowd.Problem(5), nullptr, {.tolerance = 1e-8});
  crowd.votes = all;
  const Consensus cold = EstimateConsensus(crowd.Problem(5), nullptr, {.tolerance = 1e-8});
  const Consensus warm = EstimateConsensus(crowd.Problem(5), &before.model, {.tolerance = 1e-8});
  EXPECT_LT(warm.iterations, cold.iterations);
  for (std::size_t k = 0; k < cold.model.confusion.size(); ++k) {
    EXPECT_NEAR(warm.model.confusion[k], cold.model.confusion[k], 1e-5);
  }
}

TEST(DawidSkeneTest, WarmStartTakesNewAnnotators) {
  const Crowd crowd = MakeCrowd(kFive, 300, 3, 2, 9);
  std::vector<Vote> fewer;
  for (const Vote& vote : crowd.votes) {
    if (vote.annotator < 3) fewer.push_back(vote);
  }
  const ConsensusProblem some = {.items = 300, .annotators = 3, .classes = 2, .votes = fewer};
  const Consensus before = EstimateConsensus(some);
  const Consensus after = EstimateConsensus(crowd.Problem(5), &before.model);
  EXPECT_EQ(after.model.annotators(), 5u);
  EXPECT_NEAR(after.model.accuracy[4], 0.95, 0.1);
}

TEST(DawidSkeneTest, TheOrderOfItemsAndTheirNamesDoNotMatter) {
  const Crowd crowd = MakeCrowd(kFive, 200, 3, 3, 10);
  Crowd reversed = crowd;
  for (Vote& vote : reversed.votes) vote.item = 199 - vote.item;
  const Consensus a = EstimateConsensus(crowd.Problem(5)), b = EstimateConsensus(reversed.Problem(5));
  for (std::size_t i = 0; i < 200; ++i) {
    for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(a.posterior(i, c), b.posterior(199 - i, c), 1e-6);
  }
}

TEST(DawidSkeneTest, ManyVotesOnAnItemDoNotUnderflow) {
  const std::vector<double> accuracies(400, 0.9);
  const Crowd crowd = MakeCrowd(accuracies, 20, 400, 5, 11);
  const Consensus result = EstimateConsensus(crowd.Problem(400));
  EXPECT_EQ(ShareRight(crowd, result), 1);
}

TEST(DawidSkeneTest, TheClassifierIsOneMoreVoice) {
  const std::vector<Vote> votes = {{0, 0, 0}, {0, 1, 1}};
  Matrix<double> voice(1, 2);
  voice(0, 0) = 0.1;
  voice(0, 1) = 0.9;
  ConsensusProblem problem = {.items = 1, .annotators = 2, .classes = 2, .votes = votes};
  EXPECT_NEAR(EstimateConsensus(problem).posterior(0, 1), 0.5, 1e-9);
  problem.classifier = voice.view();
  EXPECT_GT(EstimateConsensus(problem).posterior(0, 1), 0.6);
  EXPECT_LT(EstimateConsensus(problem).posterior(0, 1), 0.9);
}

TEST(DawidSkeneTest, TheVoiceOfAClassifierIsDiscountedInThePosteriorOfAnItem) {
  AnnotatorModel model = PriorModel(2);
  model.priors = {0.3, 0.7};
  const std::vector<ItemVote> votes = {{0, 0}};
  const std::vector<double> voice = {0.2, 0.8};
  const auto odds = [&](const ClassifierVoice& said) {
    const std::vector<double> posterior = ItemPosterior(model, votes, said);
    EXPECT_NEAR(posterior[0] + posterior[1], 1, 1e-12);
    return posterior[0] / posterior[1];
  };
  const double of_vote = 0.75 / 0.25;
  EXPECT_NEAR(odds({}), 3.0 / 7 * of_vote, 1e-12);
  EXPECT_NEAR(odds({voice, 0}), 3.0 / 7 * of_vote, 1e-12);
  EXPECT_NEAR(odds({voice, 0.5}), std::sqrt(3.0 / 7 * 0.25) * of_vote, 1e-12);
  EXPECT_NEAR(odds({voice, 1}), 0.25 * of_vote, 1e-12) << "instead of the class priors";
  const std::vector<double> certain = {0, 1};
  EXPECT_GT(odds({certain, 1}), 1e-3) << "it is never certain";
}

TEST(DawidSkeneTest, TheExpectedInformationIsThatOfTheAnswers) {
  const AnnotatorModel model = PriorModel(3);
  const auto entropy = [](std::span<const double> shares) {
    double sum = 0;
    for (const double p : shares) sum -= p * std::log(p);
    return sum;
  };
  const std::vector<double> belief = {0.5, 0.3, 0.2};
  // The mean over the answers of what is left, from the posterior of an item with that answer.
  AnnotatorModel believed = model;
  believed.priors = belief;
  double left = 0;
  for (std::size_t answer = 0; answer < 3; ++answer) {
    double chance = 0;
    for (std::size_t c = 0; c < 3; ++c) chance += belief[c] * model.Likelihood(0, c, answer);
    left += chance * entropy(ItemPosterior(believed, std::vector<ItemVote>{{0, answer}}));
  }
  EXPECT_NEAR(ExpectedInformation(model, 0, belief), entropy(belief) - left, 1e-12);
  EXPECT_EQ(ExpectedInformation(model, 0, std::vector<double>{1, 0, 0}), 0);
  EXPECT_GT(ExpectedInformation(model, 0, std::vector<double>{0.4, 0.3, 0.3}),
            ExpectedInformation(model, 0, std::vector<double>{0.9, 0.05, 0.05}));
}

TEST(DawidSkeneTest, ThePosteriorOfOneItemIsThatOfEm) {
  const Crowd crowd = MakeCrowd(kFive, 100, 3, 3, 12);
  const Consensus result = EstimateConsensus(crowd.Problem(5));
  for (std::uint32_t i = 0; i < 100; ++i) {
    std::vector<ItemVote> votes;
    for (const Vote& vote : crowd.votes) {
      if (vote.item == i) votes.push_back({vote.annotator, static_cast<std::size_t>(vote.value)});
    }
    const std::vector<double> posterior = ItemPosterior(result.model, votes);
    for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(posterior[c], result.posterior(i, c), 1e-9);
  }
  // An unknown annotator is like the others.
  const double accuracy = result.model.crowd_accuracy;
  const std::vector<double> posterior = ItemPosterior(result.model, std::vector<ItemVote>{{77, 1}});
  const double ratio = posterior[1] / posterior[0] * result.model.priors[0] / result.model.priors[1];
  EXPECT_NEAR(ratio, accuracy / ((1 - accuracy) / 2), 1e-9);
}

}  // namespace
}  // namespace fulcrum::consensus
