#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "stages/classify/svm_model.h"
#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"
#include "tests/support/matrices.h"
#include "tests/unit/stages/classify/labeled_clusters.h"
#include "tests/unit/stages/classify/libsvm_oracle.h"

namespace fulcrum::classify {
namespace {

/// Labels drawn from a known sigmoid of random decision values.
void DrawFromSigmoid(const PlattParameters& truth, std::size_t count, std::vector<double>& decisions,
                     std::vector<double>& y) {
  Random random(4);
  for (std::size_t i = 0; i < count; ++i) {
    decisions.push_back(2 * random.Normal());
    y.push_back(random.Uniform() < PlattProbability(truth, decisions.back()) ? 1 : -1);
  }
}

TEST(PlattTest, RecoversTheSigmoidBehindTheLabels) {
  std::vector<double> decisions, y;
  DrawFromSigmoid({-1.5, 0.4}, 20000, decisions, y);
  const PlattParameters fitted = FitSigmoid(decisions, y);
  EXPECT_NEAR(fitted.a, -1.5, 0.06);
  EXPECT_NEAR(fitted.b, 0.4, 0.06);
}

TEST(PlattTest, NoNeighbourFitsBetter) {
  std::vector<double> decisions, y;
  DrawFromSigmoid({-0.7, -0.2}, 300, decisions, y);
  const PlattParameters fitted = FitSigmoid(decisions, y);
  const double positives = static_cast<double>(std::count(y.begin(), y.end(), 1.0));
  const double high = (positives + 1) / (positives + 2), low = 1 / (300 - positives + 2);
  const auto loss = [&](double a, double b) {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double p = 1 / (1 + std::exp(a * decisions[i] + b)), target = y[i] > 0 ? high : low;
      sum -= target * std::log(p) + (1 - target) * std::log(1 - p);
    }
    return sum;
  };
  for (double da : {-0.01, 0.0, 0.01}) {
    for (double db : {-0.01, 0.0, 0.01}) EXPECT_GE(loss(fitted.a + da, fitted.b + db), loss(fitted.a, fitted.b) - 1e-9);
  }
}

TEST(PlattTest, WeightTwoIsTwice) {
  std::vector<double> decisions, y;
  DrawFromSigmoid({-0.7, -0.2}, 200, decisions, y);
  std::vector<double> weights(y.size(), 1.0), twice = decisions, labels_twice = y;
  for (std::size_t i = 0; i < 60; ++i) {
    weights[i] = 2;
    twice.push_back(decisions[i]);
    labels_twice.push_back(y[i]);
  }
  const PlattParameters weighted = FitSigmoid(decisions, y, weights), doubled = FitSigmoid(twice, labels_twice);
  EXPECT_NEAR(weighted.a, doubled.a, 1e-4);
  EXPECT_NEAR(weighted.b, doubled.b, 1e-4);
  EXPECT_GT(std::abs(weighted.a - FitSigmoid(decisions, y).a), 1e-3) << "the weights make a difference";
}

TEST(PlattTest, ExtremeDecisionsStayFinite) {
  EXPECT_EQ(PlattProbability({-1, 0}, 1e6), 1);
  EXPECT_EQ(PlattProbability({-1, 0}, -1e6), 0);
  const PlattParameters separable =
      FitSigmoid(std::vector<double>{-1e5, -1e4, 1e4, 1e5}, std::vector<double>{-1, -1, 1, 1});
  EXPECT_TRUE(std::isfinite(separable.a) && std::isfinite(separable.b));
}

struct Problem {
  explicit Problem(std::size_t count) : clusters(MakeClusters(count, 5, 2, 21)) {
    gram = testing::NaiveKernel({}, clusters.values(), clusters.values());
    positions.resize(count);
    std::iota(positions.begin(), positions.end(), 0u);
    c.assign(count, 1);
    for (ClassIndex label : clusters.truth) y.push_back(label == 0 ? 1 : -1);
  }
  SmoProblem View() const { return {gram.view(), positions, y, c}; }
  LabeledClusters clusters;
  Matrix<double> gram;
  std::vector<std::uint32_t> positions;
  std::vector<double> y, c;
};

TEST(PlattTest, EveryFoldIsDecidedByThoseOutsideIt) {
  const std::size_t count = 43;
  const Problem problem(count);
  const SmoOptions tight{.tolerance = 1e-9};
  const std::vector<double> decisions = CrossValidatedDecisions(problem.View(), tight, {}, problem.positions, 7, 0);
  std::vector<std::uint32_t> shuffled = problem.positions;
  Random random = Random::Fork(7, 0);
  random.Shuffle(std::span(shuffled));
  for (std::size_t fold = 0; fold < 5; ++fold) {
    const std::size_t begin = fold * count / 5, end = (fold + 1) * count / 5;
    std::vector<std::uint32_t> others(shuffled.begin(), shuffled.begin() + static_cast<long>(begin));
    others.insert(others.end(), shuffled.begin() + static_cast<long>(end), shuffled.end());
    std::vector<double> y, c(others.size(), 1);
    for (std::uint32_t t : others) y.push_back(problem.y[t]);
    const SmoSolution solution = SolveSmo({problem.gram.view(), others, y, c}, tight);
    for (std::size_t k = begin; k < end; ++k) {
      double expected = -solution.rho;
      for (std::size_t s = 0; s < others.size(); ++s) {
        expected += y[s] * solution.alpha[s] * problem.gram(shuffled[k], others[s]);
      }
      EXPECT_NEAR(decisions[shuffled[k]], expected, 1e-6);
    }
  }
}

TEST(PlattTest, AStartSavesTimeOnly) {
  const Problem problem(60);
  const SmoOptions tight{.tolerance = 1e-9};
  const SmoSolution solution = SolveSmo(problem.View(), tight);
  const auto cold = CrossValidatedDecisions(problem.View(), tight, {}, problem.positions, 7, 0);
  const auto warm =
      CrossValidatedDecisions(problem.View(), tight, {solution.alpha, solution.products}, problem.positions, 7, 0);
  for (std::size_t t = 0; t < cold.size(); ++t) EXPECT_NEAR(cold[t], warm[t], 1e-6);
}

TEST(PlattTest, FoldsWithoutAClassAnswerAsLibsvmDoes) {
  // Two labels: holding out either leaves one class, and three of the five folds are empty.
  Problem problem(2);
  const auto decisions = CrossValidatedDecisions(problem.View(), {}, {}, problem.positions, 1, 0);
  EXPECT_EQ(decisions[0], -1);
  EXPECT_EQ(decisions[1], 1);
}

TEST(PlattTest, ProbabilitiesComeNearLibsvms) {
  const LabeledClusters clusters = MakeClusters(400, 5, 2, 22);
  const auto labels = clusters.LabelsOfFirst(300);
  SvmTrainer trainer({}, *clusters.features);
  SvmModel model = *trainer.Train(labels, 2);
  ASSERT_TRUE(trainer.FitProbabilities(model).ok());
  const Matrix<double> decisions = DecisionValues(model, *clusters.features, *clusters.features);
  const Matrix<double> ours = *Probabilities(model, decisions.view());
  const LibsvmOracle oracle = LibsvmOracle::Train({}, clusters.values(), labels, /*probabilities=*/true);
  // The folds are other ones, so the sigmoids differ a little; the confidence in an example must not.
  for (std::size_t row = 300; row < 400; ++row) {
    EXPECT_NEAR(ours(row, 0), oracle.Probabilities(clusters.values().row(row))[0], 0.05) << row;
  }
}

}  // namespace
}  // namespace fulcrum::classify
