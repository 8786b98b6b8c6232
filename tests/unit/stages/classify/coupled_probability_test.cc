#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"

namespace fulcrum::classify {
namespace {

Matrix<double> RandomPairwise(std::size_t classes, std::uint64_t seed) {
  Random random(seed);
  Matrix<double> pairwise = Matrix<double>::Zero(classes, classes);
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j) {
      pairwise(i, j) = 0.02 + 0.96 * random.Uniform();
      pairwise(j, i) = 1 - pairwise(i, j);
    }
  }
  return pairwise;
}

/// The optimality system [Q e; e' 0] (p, b) = (0, 1) by Gaussian elimination with pivoting.
std::vector<double> DirectSolution(ConstMatrixView pairwise) {
  const std::size_t classes = pairwise.rows(), size = classes + 1;
  Matrix<double> system = Matrix<double>::Zero(size, size + 1);
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = 0; j < classes; ++j) {
      if (i == j) continue;
      system(i, i) += pairwise(j, i) * pairwise(j, i);
      system(i, j) = -pairwise(j, i) * pairwise(i, j);
    }
    system(i, classes) = system(classes, i) = 1;
  }
  system(classes, size) = 1;
  for (std::size_t col = 0; col < size; ++col) {
    std::size_t pivot = col;
    for (std::size_t row = col; row < size; ++row) {
      if (std::abs(system(row, col)) > std::abs(system(pivot, col))) pivot = row;
    }
    std::swap_ranges(system.row(col).begin(), system.row(col).end(), system.row(pivot).begin());
    for (std::size_t row = 0; row < size; ++row) {
      if (row == col) continue;
      const double factor = system(row, col) / system(col, col);
      for (std::size_t k = col; k <= size; ++k) system(row, k) -= factor * system(col, k);
    }
  }
  std::vector<double> p(classes);
  for (std::size_t i = 0; i < classes; ++i) p[i] = system(i, size) / system(i, i);
  return p;
}

TEST(CoupledProbabilityTest, SolvesTheOptimalitySystem) {
  for (std::size_t classes : {3u, 4u, 7u, 10u}) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      const Matrix<double> pairwise = RandomPairwise(classes, 100 * classes + seed);
      const std::vector<double> p = CoupleProbabilities(pairwise.view());
      EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1, 1e-12);
      EXPECT_THAT(p, ::testing::Pointwise(::testing::DoubleNear(1e-8), DirectSolution(pairwise.view())));
    }
  }
}

TEST(CoupledProbabilityTest, ConsistentPairsGiveBackTheirProbabilities) {
  const std::vector<double> truth = {0.5, 0.3, 0.15, 0.05};
  Matrix<double> pairwise = Matrix<double>::Zero(4, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) pairwise(i, j) = truth[i] / (truth[i] + truth[j]);
  }
  EXPECT_THAT(CoupleProbabilities(pairwise.view()), ::testing::Pointwise(::testing::DoubleNear(1e-9), truth));
}

TEST(CoupledProbabilityTest, TwoClassesAreThePairItself) {
  Matrix<double> pairwise = Matrix<double>::Zero(2, 2);
  pairwise(0, 1) = 0.8125;
  pairwise(1, 0) = 0.1875;
  EXPECT_THAT(CoupleProbabilities(pairwise.view()), ::testing::ElementsAre(0.8125, 0.1875));
}

}  // namespace
}  // namespace fulcrum::classify
