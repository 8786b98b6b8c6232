#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/classify/labeled_clusters.h"
#include "tests/unit/stages/classify/libsvm_oracle.h"

namespace fulcrum::classify {
namespace {

constexpr double kSolverTight = 1e-9;

/// A binary problem on its own Gram matrix.
struct Binary {
  explicit Binary(std::size_t count, std::uint64_t seed = 1, double bound = 1)
      : clusters(MakeClusters(count, 6, 2, seed)),
        gram(testing::NaiveKernel({}, clusters.values(), clusters.values())),
        positions(count),
        c(count, bound) {
    std::iota(positions.begin(), positions.end(), 0u);
    for (ClassIndex label : clusters.truth) y.push_back(label == 0 ? 1 : -1);
  }
  SmoProblem View() const { return {gram.view(), positions, y, c}; }

  LabeledClusters clusters;
  Matrix<double> gram;
  std::vector<std::uint32_t> positions;
  std::vector<double> y, c;
};

std::vector<double> NaiveProducts(const SmoProblem& problem, std::span<const double> alpha) {
  std::vector<double> products(alpha.size(), 0);
  for (std::size_t t = 0; t < alpha.size(); ++t) {
    for (std::size_t s = 0; s < alpha.size(); ++s) {
      products[t] += problem.gram(problem.positions[t], problem.positions[s]) * problem.y[s] * alpha[s];
    }
  }
  return products;
}

double NaiveDual(const SmoProblem& problem, std::span<const double> alpha) {
  const std::vector<double> products = NaiveProducts(problem, alpha);
  double objective = 0;
  for (std::size_t t = 0; t < alpha.size(); ++t) objective += alpha[t] * (0.5 * problem.y[t] * products[t] - 1);
  return objective;
}

/// Feasible, and no pair of multipliers can still lower the objective by more than the tolerance allows.
void ExpectOptimal(const SmoProblem& problem, const SmoSolution& solution, double tolerance) {
  const std::vector<double> products = NaiveProducts(problem, solution.alpha);
  double smallest_up = 1e300, largest_low = -1e300, sum = 0;
  for (std::size_t t = 0; t < problem.y.size(); ++t) {
    EXPECT_GE(solution.alpha[t], 0);
    EXPECT_LE(solution.alpha[t], problem.c[t]);
    EXPECT_NEAR(solution.products[t], products[t], 1e-9);
    sum += problem.y[t] * solution.alpha[t];
    const double f = products[t] - problem.y[t];
    const bool below = solution.alpha[t]<problem.c[t], above = solution.alpha[t]> 0;
    if (problem.y[t] > 0 ? below : above) smallest_up = std::min(smallest_up, f);
    if (problem.y[t] > 0 ? above : below) largest_low = std::max(largest_low, f);
  }
  EXPECT_NEAR(sum, 0, 1e-10);
  EXPECT_LE(largest_low - smallest_up, tolerance + 1e-9);
  EXPECT_TRUE(solution.converged);
}

TEST(SmoSolverTest, MeetsTheOptimalityConditionsAtEveryTolerance) {
  const Binary binary(200);
  for (double tolerance : {1e-1, 1e-3, 1e-6, kSolverTight}) {
    ExpectOptimal(binary.View(), SolveSmo(binary.View(), {.tolerance = tolerance}), tolerance);
  }
}

TEST(SmoSolverTest, ObjectiveAndRhoAreThoseOfLibsvm) {
  const Binary binary(300, 2);
  const SmoSolution solution = SolveSmo(binary.View(), {.tolerance = kSolverTight});
  const LibsvmOracle oracle =
      LibsvmOracle::Train({.tolerance = kSolverTight}, binary.clusters.values(), binary.clusters.truth);
  std::vector<double> alpha = oracle.SignedMultipliers();
  for (double& value : alpha) value = std::abs(value);
  const double reference = NaiveDual(binary.View(), alpha);
  EXPECT_NEAR(solution.objective, reference, 1e-9 * std::abs(reference));
  EXPECT_NEAR(solution.objective, NaiveDual(binary.View(), solution.alpha), 1e-9 * std::abs(reference));
  const double decision = oracle.Decisions(binary.clusters.values().row(5))[0];
  EXPECT_NEAR(solution.products[5] - solution.rho, decision, 1e-6);
}

TEST(SmoSolverTest, ShrinkingLeadsToTheSameOptimum) {
  // More examples than the shrinking interval would need on its own, and a C at which most multipliers are at zero.
  const Binary binary(1200, 3, 10);
  const SmoSolution with = SolveSmo(binary.View(), {.tolerance = 1e-7, .shrinking = true});
  const SmoSolution without = SolveSmo(binary.View(), {.tolerance = 1e-7, .shrinking = false});
  EXPECT_GT(with.iterations, 2000u) << "too easy for shrinking to have happened";
  ExpectOptimal(binary.View(), with, 1e-7);
  EXPECT_NEAR(with.objective, without.objective, 1e-9 * std::abs(without.objective));
  EXPECT_NEAR(with.rho, without.rho, 1e-6);
}

TEST(SmoSolverTest, ScatteredPositionsGiveTheSameSolution) {
  const Binary binary(150, 4);
  // Example t of the scattered problem is row 3 t + 1 of a larger matrix that is NaN elsewhere.
  Matrix<double> sparse(451, 451);
  for (std::size_t row = 0; row < 451; ++row) std::fill_n(sparse.row(row).data(), 451, std::nan(""));
  Binary scattered(150, 4);
  for (std::uint32_t t = 0; t < 150; ++t) scattered.positions[t] = 3 * t + 1;
  for (std::size_t s = 0; s < 150; ++s) {
    for (std::size_t t = 0; t < 150; ++t) sparse(3 * s + 1, 3 * t + 1) = binary.gram(s, t);
  }
  const SmoSolution direct = SolveSmo(binary.View(), {});
  const SmoSolution gathered = SolveSmo({sparse.view(), scattered.positions, scattered.y, scattered.c}, {});
  EXPECT_EQ(direct.alpha, gathered.alpha);
  EXPECT_EQ(direct.rho, gathered.rho);
}

TEST(SmoSolverTest, AnyStartLeadsToTheSameOptimum) {
  const Binary binary(200, 5, 2);
  const SmoSolution cold = SolveSmo(binary.View(), {.tolerance = kSolverTight});
  Random random(8);
  std::vector<double> alpha(200);
  for (double& value : alpha) value = 5 * random.Uniform() - 1;
  const SmoSolution warm = SolveSmo(binary.View(), {.tolerance = kSolverTight}, {alpha, {}});
  ExpectOptimal(binary.View(), warm, kSolverTight);
  EXPECT_NEAR(warm.objective, cold.objective, 1e-9 * std::abs(cold.objective));
  EXPECT_NEAR(warm.rho, cold.rho, 1e-6);
}

TEST(SmoSolverTest, StartingFromTheSolutionTakesNoStep) {
  const Binary binary(200, 6);
  const SmoSolution cold = SolveSmo(binary.View(), {});
  EXPECT_GT(cold.iterations, 20u);
  EXPECT_EQ(SolveSmo(binary.View(), {}, {cold.alpha, cold.products}).iterations, 0u);
}

TEST(SmoSolverTest, HeldOutExamplesHaveNoSayButADecision) {
  Binary binary(120, 7);
  for (std::size_t t = 100; t < 120; ++t) binary.c[t] = 0;
  const SmoSolution held_out = SolveSmo(binary.View(), {.tolerance = kSolverTight});
  const SmoProblem all = binary.View();
  const SmoProblem part{all.gram, all.positions.first(100), all.y.first(100), all.c.first(100)};
  const SmoSolution smaller = SolveSmo(part, {.tolerance = kSolverTight});
  EXPECT_NEAR(held_out.objective, smaller.objective, 1e-10);
  EXPECT_NEAR(held_out.rho, smaller.rho, 1e-7);
  const std::vector<double> products = NaiveProducts(all, held_out.alpha);
  for (std::size_t t = 100; t < 120; ++t) {
    EXPECT_EQ(held_out.alpha[t], 0);
    EXPECT_NEAR(held_out.products[t], products[t], 1e-10);
  }
}

TEST(SmoSolverTest, DuplicatesWithOppositeLabelsDoNotStallIt) {
  Binary binary(60, 8);
  for (std::size_t t = 0; t < 60; ++t) std::fill_n(binary.gram.row(t).data(), 60, 1.0);
  ExpectOptimal(binary.View(), SolveSmo(binary.View(), {}), 1e-3);
}

TEST(SmoSolverTest, SaysSoWhenTheIterationsRunOut) {
  const Binary binary(200, 9);
  const SmoSolution solution = SolveSmo(binary.View(), {.tolerance = kSolverTight, .max_iterations = 5});
  EXPECT_FALSE(solution.converged);
  EXPECT_EQ(solution.iterations, 5u);
}

}  // namespace
}  // namespace fulcrum::classify
