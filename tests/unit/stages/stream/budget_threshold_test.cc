#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "stages/core/random.h"
#include "stages/stream/stream_selector.h"

namespace fulcrum::stream {
namespace {

struct Scores {
  std::string name;
  std::function<double(std::size_t row, Random& random)> next;
};

/// Streams whose scores drift, jump, repeat or vary wildly.
std::vector<Scores> DriftingScores() {
  return {
      {"the same distribution", [](std::size_t, Random& random) { return random.Uniform(); }},
      {"constant", [](std::size_t, Random&) { return 0.25; }},
      {"rising", [](std::size_t row, Random& random) { return static_cast<double>(row) + random.Normal(); }},
      {"falling", [](std::size_t row, Random& random) { return random.Normal() - static_cast<double>(row); }},
      {"waves", [](std::size_t row,
                   Random& random) { return std::sin(1e-3 * static_cast<double>(row)) + 0.1 * random.Normal(); }},
      {"jumps", [](std::size_t row, Random& random) { return (row / 5000 % 2 == 0 ? 10 : 0) + random.Normal(); }},
      {"heavy tails", [](std::size_t, Random& random) { return std::exp(3 * random.Normal()); }},
  };
}

TEST(BudgetThreshold, KeepsAShareAtAnyMomentWhereverTheScoresDrift) {
  for (const Scores& scores : DriftingScores()) {
    for (const double share : {0.0005, 0.01, 0.1, 0.5, 1.0}) {
      Random random(7);
      BudgetThreshold threshold({.share = share});
      for (std::size_t row = 0; row < 50000; ++row) {
        threshold.Offer(scores.next(row, random), 0);
        const double due = share * static_cast<double>(row + 1);
        const double slack = std::max(1.0, 0.005 * due);
        const auto taken = static_cast<double>(threshold.taken());
        ASSERT_NEAR(taken, due, slack + 1e-6) << scores.name << ", share " << share;
        if (due < 200) {
          ASSERT_LE(taken, std::ceil(due - 1e-6)) << scores.name << ", share " << share;
        }
      }
      EXPECT_EQ(threshold.rows(), 50000U);
    }
  }
}

TEST(BudgetThreshold, TakesWhatReachesTheThresholdAndNothingElse) {
  Random random(3);
  BudgetThreshold threshold({.share = 0.05});
  for (int row = 0; row < 20000; ++row) {
    const double score = random.Normal();
    const BudgetThreshold::Answer answer = threshold.Offer(score, 0);
    EXPECT_EQ(answer.take, score >= answer.threshold);
  }
}

TEST(BudgetThreshold, TakesTheBestRowsOfASteadyStream) {
  Random random(5);
  BudgetThreshold threshold({.share = 0.02});
  double sum = 0;
  for (int row = 0; row < 100000; ++row) {
    const double score = random.Uniform();
    if (threshold.Offer(score, 0).take) sum += score;
  }
  // The best 2 percent have a mean of 0.99 and all rows one of 0.5; forced picks would show.
  EXPECT_GT(sum / static_cast<double>(threshold.taken()), 0.96);
}

TEST(BudgetThreshold, KeepsALimitPerTimeAndDoesNotMakeUpForAPause) {
  Random random(11);
  BudgetThreshold threshold({.per_second = 2});
  double now = 1e6;
  for (int row = 0; row < 40000; ++row) {
    now += 0.05 * random.Uniform();  // 40 rows in a second
    threshold.Offer(random.Uniform(), now);
  }
  const double due = 2 * (now - 1e6);
  EXPECT_NEAR(static_cast<double>(threshold.taken()), due, 0.01 * due);
  const std::uint64_t before = threshold.taken();
  now += 86400;
  for (int row = 0; row < 400; ++row) threshold.Offer(random.Uniform(), now += 0.025);
  // Ten seconds are 20 labels; of the day of silence there is the slack and no more.
  EXPECT_LE(threshold.taken() - before, 20 + static_cast<std::uint64_t>(2 * 0.005 * due) + 2);
}

TEST(BudgetThreshold, AStateContinuesWithTheSameAnswers) {
  for (const Budget& budget : {Budget{.share = 0.03}, Budget{.per_second = 0.7}}) {
    Random random(13);
    BudgetThreshold whole(budget), pieces(budget);
    for (int row = 0; row < 3000; ++row) {
      if (row % 37 == 0) {
        classify::ByteWriter out;
        pieces.Write(out);
        pieces = BudgetThreshold(budget);
        classify::ByteReader in(out.bytes());
        ASSERT_TRUE(pieces.Read(in).ok());
      }
      const double score = random.Normal(), now = 0.1 * row;
      const BudgetThreshold::Answer a = whole.Offer(score, now), b = pieces.Offer(score, now);
      ASSERT_EQ(a.threshold, b.threshold);
      ASSERT_EQ(a.take, b.take);
    }
  }
}

TEST(BudgetThreshold, RefusesAnotherBudgetAndDamage) {
  BudgetThreshold threshold({.share = 0.1});
  for (int row = 0; row < 100; ++row) threshold.Offer(row, 0);
  classify::ByteWriter out;
  threshold.Write(out);
  BudgetThreshold other({.share = 0.2});
  classify::ByteReader in(out.bytes());
  EXPECT_FALSE(other.Read(in).ok());
  for (std::size_t size = 0; size < out.bytes().size(); size += 9) {
    classify::ByteReader cut(std::string_view(out.bytes()).substr(0, size));
    EXPECT_FALSE(BudgetThreshold({.share = 0.1}).Read(cut).ok()) << size;
  }
  EXPECT_EQ(other.rows(), 0U);
}

TEST(ValidateBudget, WantsOneOfTheTwo) {
  EXPECT_TRUE(ValidateBudget({.share = 0.01}).ok());
  EXPECT_TRUE(ValidateBudget({.per_second = 0.01}).ok());
  EXPECT_FALSE(ValidateBudget({}).ok());
  EXPECT_FALSE(ValidateBudget({.share = 0.1, .per_second = 1}).ok());
  EXPECT_FALSE(ValidateBudget({.share = 1.5}).ok());
  EXPECT_FALSE(ValidateBudget({.share = -0.1}).ok());
  EXPECT_FALSE(ValidateBudget({.per_second = -1}).ok());
}

TEST(BudgetThreshold, ABudgetPerTimeGoesOnAfterTheClockWasSetBack) {
  Random random(11);
  BudgetThreshold threshold({.per_second = 0.1});
  const auto offer_for = [&](double from, int seconds) {
    const std::uint64_t before = threshold.taken();
    for (int second = 0; second < seconds; ++second) threshold.Offer(random.Uniform(), from + second);
    return static_cast<double>(threshold.taken() - before);
  };
  offer_for(1e9, 1000);
  // An hour ahead for a moment, and then right again.
  offer_for(1e9 + 3600, 1);
  EXPECT_NEAR(offer_for(1e9 + 1001, 1000), 100, 3);
}

}  // namespace
}  // namespace fulcrum::stream
