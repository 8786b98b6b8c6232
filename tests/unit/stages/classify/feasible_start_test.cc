#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"

namespace fulcrum::classify {
namespace {

using ::testing::ElementsAre;

TEST(FeasibleStartTest, LeavesAFeasibleStartAlone) {
  std::vector<double> beta = {0.5, -0.25, -0.25, 0};
  MakeFeasible(std::vector<double>{0, -1, -1, 0}, std::vector<double>{1, 0, 0, 1}, beta);
  EXPECT_THAT(beta, ElementsAre(0.5, -0.25, -0.25, 0));
}

TEST(FeasibleStartTest, TakesFromTheFreeBeforeThoseAtTheirBound) {
  std::vector<double> beta = {1, 0.5, 0.25, -1};
  MakeFeasible(std::vector<double>{0, 0, 0, -1}, std::vector<double>{1, 1, 1, 0}, beta);
  EXPECT_THAT(beta, ElementsAre(1, 0, 0, -1));
}

TEST(FeasibleStartTest, RandomStartsBecomeFeasible) {
  Random random(3);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const std::size_t count = 1 + random.Below(30);
    std::vector<double> lower, upper, beta;
    for (std::size_t t = 0; t < count; ++t) {
      const bool positive = random.Below(2) == 0;
      const double bound = random.Uniform() * 2;
      lower.push_back(positive ? 0 : -bound);
      upper.push_back(positive ? bound : 0);
      beta.push_back(4 * random.Uniform() - 2);
    }
    MakeFeasible(lower, upper, beta);
    for (std::size_t t = 0; t < count; ++t) {
      EXPECT_GE(beta[t], lower[t]);
      EXPECT_LE(beta[t], upper[t]);
    }
    EXPECT_NEAR(std::accumulate(beta.begin(), beta.end(), 0.0), 0, 1e-12);
  }
}

}  // namespace
}  // namespace fulcrum::classify
