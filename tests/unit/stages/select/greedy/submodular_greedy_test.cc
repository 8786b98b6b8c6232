#include "stages/select/greedy/submodular_greedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "stages/core/random.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/select/greedy/set_function_reference.h"

namespace fulcrum::select {
namespace {

/// Owns a problem's data.
struct ProblemData {
  RowList rows;
  std::vector<double> scores;
  Matrix<double> kernel;
  std::vector<std::size_t> labeled;

  GreedyProblem Problem(std::size_t batch, double alpha) const {
    return {
        .rows = rows, .scores = scores, .kernel = kernel.view(), .labeled = labeled, .batch = batch, .alpha = alpha};
  }
};

/// A group of `size` rows under an rbf kernel, the first `labeled` positions labeled. Every third problem has equal
/// scores, every second a few rows many times over, so that ties are common.
ProblemData RandomProblem(std::size_t size, std::size_t labeled, std::uint64_t seed) {
  Random random(seed);
  Matrix<double> points = testing::RandomMatrix(size, 3, seed);
  if (seed % 2 == 0) {
    for (std::size_t i = 3; i < size; ++i) {
      std::copy_n(points.row(random.Below(3)).data(), 3, points.row(i).data());
    }
  }
  ProblemData data;
  data.kernel = testing::NaiveKernel({.sigma = 1.5}, points.view(), points.view());
  for (std::size_t i = 0; i < size; ++i) {
    data.rows.push_back(static_cast<RowIndex>(3 * i + 5));
    data.scores.push_back(seed % 3 == 0 ? 0.25 : random.Uniform());
  }
  random.Shuffle(std::span<RowIndex>(data.rows));
  for (std::size_t i = 0; i < labeled; ++i) data.labeled.push_back(i);
  return data;
}

TEST(SubmodularGreedyTest, GivesTheSameBatchAsTheNaiveGreedy) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ProblemData data = RandomProblem(20 + seed, seed % 7, seed);
    for (const double alpha : {0.0, 0.1, 0.5, 1.0}) {
      for (const std::size_t batch : {1, 3, 10, 15}) {
        const GreedyProblem problem = data.Problem(batch, alpha);
        ASSERT_EQ(MaximizeGreedily(problem).positions, ReferenceGreedy(problem))
            << "seed " << seed << " alpha " << alpha << " batch " << batch;
      }
    }
  }
}

TEST(SubmodularGreedyTest, GivesTheSameBatchIfLazinessDoesNotPay) {
  // Nearly equal scores and similarities make every pick lower all gains, so that the run goes over to whole rows.
  const std::size_t size = 3000;
  ProblemData data;
  Random random(3);
  const Matrix<double> points = testing::RandomMatrix(size, 2, 9);
  data.kernel = testing::NaiveKernel({.sigma = 4}, points.view(), points.view());
  for (std::size_t i = 0; i < size; ++i) {
    data.rows.push_back(static_cast<RowIndex>(size - i));
    data.scores.push_back(1e-3 * random.Uniform());
  }
  data.labeled = {17, 4, 99};
  const GreedyProblem problem = data.Problem(40, 1);
  const GreedyBatch batch = MaximizeGreedily(problem);
  EXPECT_EQ(batch.positions, ReferenceGreedy(problem));
  // Laziness alone would compute thousands.
  EXPECT_GT(batch.evaluations, 40u);
  EXPECT_LT(batch.evaluations, 1000u);
}

TEST(SubmodularGreedyTest, LazinessSparesMostEvaluations) {
  const ProblemData data = RandomProblem(1001, 4, 7);
  const GreedyBatch batch = MaximizeGreedily(data.Problem(5, 0.5));
  EXPECT_GT(batch.evaluations, 0u);
  EXPECT_LT(batch.evaluations, 5u * 1001 / 20);
}

TEST(SubmodularGreedyTest, GainsAddUpToTheValue) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ProblemData data = RandomProblem(40, 5, seed);
    const GreedyProblem problem = data.Problem(12, 0.7);
    const GreedyBatch batch = MaximizeGreedily(problem);
    std::vector<std::size_t> set = data.labeled;
    set.insert(set.end(), batch.positions.begin(), batch.positions.end());
    EXPECT_NEAR(batch.value, ReferenceValue(problem, set, 17), 1e-12);
    EXPECT_NEAR(std::accumulate(batch.gains.begin(), batch.gains.end(), ReferenceValue(problem, data.labeled, 17)),
                batch.value, 1e-12);
    EXPECT_TRUE(std::is_sorted(batch.gains.rbegin(), batch.gains.rend()));
    EXPECT_THAT(batch.gains, ::testing::Each(::testing::Ge(0)));
  }
}

TEST(SubmodularGreedyTest, IsNearTheExhaustiveBestAndTheBoundIsABound) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::size_t labeled = seed % 4;
    const ProblemData data = RandomProblem(10 + labeled, labeled, seed);
    for (const double alpha : {0.1, 0.5, 1.0}) {
      for (const std::size_t size : {1, 3, 5}) {
        const GreedyProblem problem = data.Problem(size, alpha);
        const GreedyBatch batch = MaximizeGreedily(problem);
        const double best = ReferenceBest(problem);
        // The guarantee is for what the batch adds to the labeled, which is the stronger statement.
        const double start = ReferenceValue(problem, data.labeled, labeled + size);
        EXPECT_GE(batch.value - start, (1 - std::exp(-1.0)) * (best - start) - 1e-12);
        EXPECT_GE(batch.upper_bound, best - 1e-9) << "seed " << seed << " alpha " << alpha << " batch " << size;
        EXPECT_GE(batch.upper_bound, batch.value);
      }
    }
  }
}

TEST(SubmodularGreedyTest, BoundIsTight) {
  // The tangent leaves at most alpha / 2 in all, whatever the size of the batch; greedy itself is the rest.
  for (std::uint64_t seed = 1; seed < 10; seed += 2) {
    const ProblemData data = RandomProblem(400, 5, seed);
    const GreedyBatch batch = MaximizeGreedily(data.Problem(50, 0.5));
    EXPECT_LT(batch.upper_bound, 1.01 * batch.value) << "seed " << seed;
  }
}

TEST(SubmodularGreedyTest, DoesNotDependOnTheOrderOfPositions) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ProblemData data = RandomProblem(50, 6, seed);
    std::vector<std::size_t> permutation(50);
    std::iota(permutation.begin(), permutation.end(), std::size_t{0});
    Random random(seed + 100);
    random.Shuffle(std::span<std::size_t>(permutation));
    ProblemData permuted;
    permuted.kernel = Matrix<double>(50, 50);
    for (std::size_t i = 0; i < 50; ++i) {
      permuted.rows.push_back(data.rows[permutation[i]]);
      permuted.scores.push_back(data.scores[permutation[i]]);
      if (permutation[i] < 6) permuted.labeled.push_back(i);
      for (std::size_t j = 0; j < 50; ++j) permuted.kernel(i, j) = data.kernel(permutation[i], permutation[j]);
    }
    const GreedyBatch expected = MaximizeGreedily(data.Problem(15, 0.9));
    const GreedyBatch actual = MaximizeGreedily(permuted.Problem(15, 0.9));
    for (std::size_t i = 0; i < 15; ++i) {
      EXPECT_EQ(permuted.rows[actual.positions[i]], data.rows[expected.positions[i]]);
    }
    EXPECT_EQ(actual.gains, expected.gains);
    EXPECT_EQ(actual.value, expected.value);
    EXPECT_EQ(actual.upper_bound, expected.upper_bound);
  }
}

TEST(SubmodularGreedyTest, TakesAllThatIsLeft) {
  const ProblemData data = RandomProblem(8, 3, 1);
  const GreedyProblem problem = data.Problem(20, 0.5);
  const GreedyBatch batch = MaximizeGreedily(problem);
  EXPECT_THAT(batch.positions, ::testing::UnorderedElementsAre(3, 4, 5, 6, 7));
  EXPECT_EQ(batch.positions, ReferenceGreedy(problem));
  EXPECT_NEAR(batch.value, ReferenceBest(problem), 1e-12);
}

TEST(SubmodularGreedyTest, AnEmptyBatchIsWorthTheLabeled) {
  const ProblemData data = RandomProblem(8, 3, 1);
  const GreedyProblem problem = data.Problem(0, 0.5);
  const GreedyBatch batch = MaximizeGreedily(problem);
  EXPECT_TRUE(batch.positions.empty());
  EXPECT_NEAR(batch.value, ReferenceValue(problem, data.labeled, 3), 1e-12);
  EXPECT_NEAR(batch.upper_bound, batch.value, 1e-12);
}

}  // namespace
}  // namespace fulcrum::select
