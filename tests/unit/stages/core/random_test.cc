#include "stages/core/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace fulcrum {
namespace {

TEST(Random, IsTheSameOnEveryMachine) {
  // xoshiro256** seeded by splitmix64(1), from an independent implementation of the published algorithms.
  Random random(1);
  EXPECT_EQ(random.Next(), 0xb3f2af6d0fc710c5ULL);
}

TEST(Random, ForksAreRepeatableAndDiffer) {
  EXPECT_EQ(Random::Fork(7, 3).Next(), Random::Fork(7, 3).Next());
  EXPECT_NE(Random::Fork(7, 3).Next(), Random::Fork(7, 4).Next());
  EXPECT_NE(Random::Fork(7, 3).Next(), Random::Fork(8, 3).Next());
}

TEST(Random, BelowIsUniform) {
  Random random(5);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70000; ++i) ++counts[random.Below(7)];
  // Six standard deviations of a binomial with p = 1/7.
  for (int count : counts) EXPECT_NEAR(count, 10000, 6 * std::sqrt(70000 * (1.0 / 7) * (6.0 / 7)));
}

TEST(Random, NormalHasTheRightMoments) {
  Random random(11);
  double sum = 0, squares = 0, fourth = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double value = random.Normal();
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.015);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.15);
}

TEST(Random, ShuffleKeepsEveryItem) {
  std::vector<int> items(100), sorted(100);
  std::iota(items.begin(), items.end(), 0);
  std::iota(sorted.begin(), sorted.end(), 0);
  Random(3).Shuffle(std::span(items));
  EXPECT_NE(items, sorted);
  std::sort(items.begin(), items.end());
  EXPECT_EQ(items, sorted);
}

}  // namespace
}  // namespace fulcrum
