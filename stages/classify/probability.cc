#include <algorithm>
#include <cmath>
#include <cstddef>

#include "stages/classify/svm_trainer.h"
#include "stages/core/random.h"

namespace fulcrum::classify {
namespace {

constexpr std::size_t kFolds = 5;
constexpr int kMaxNewtonSteps = 100;
constexpr double kLeastStep = 1e-10;
constexpr double kRidge = 1e-12;  // keeps the Hessian positive definite
constexpr double kGradientTolerance = 1e-5;

/// Platt's regularised targets: never exactly 0 or 1.
struct Targets {
  double positive;
  double negative;
  double Of(double y) const { return y > 0 ? positive : negative; }
};

/// The cross entropy to minimise, written so that neither branch overflows.
double NegativeLogLikelihood(std::span<const double> decisions, std::span<const double> y,
                             std::span<const double> weights, const Targets& targets, const PlattParameters& platt) {
  double sum = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const double z = platt.a * decisions[i] + platt.b;
    const double target = targets.Of(y[i]);
    const double loss = z >= 0 ? target * z + std::log1p(std::exp(-z)) : (target - 1) * z + std::log1p(std::exp(z));
    sum += weights[i] * loss;
  }
  return sum;
}

struct Derivatives {
  double h11 = kRidge, h22 = kRidge, h21 = 0;
  double g1 = 0, g2 = 0;
};

Derivatives ComputeDerivatives(std::span<const double> decisions, std::span<const double> y,
                               std::span<const double> weights, const Targets& targets, const PlattParameters& platt) {
  Derivatives d;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const double p = PlattProbability(platt, decisions[i]);
    const double curvature = weights[i] * p * PlattProbability({-platt.a, -platt.b}, decisions[i]);
    d.h11 += decisions[i] * decisions[i] * curvature;
    d.h22 += curvature;
    d.h21 += decisions[i] * curvature;
    const double residual = weights[i] * (targets.Of(y[i]) - p);
    d.g1 += decisions[i] * residual;
    d.g2 += residual;
  }
  return d;
}

enum class Presence { kNone, kPositiveOnly, kNegativeOnly, kBoth };

Presence PresentClasses(std::span<const double> y, std::span<const double> c) {
  bool positive = false, negative = false;
  for (std::size_t t = 0; t < y.size(); ++t) {
    if (c[t] == 0) continue;
    (y[t] > 0 ? positive : negative) = true;
  }
  if (positive) return negative ? Presence::kBoth : Presence::kPositiveOnly;
  return negative ? Presence::kNegativeOnly : Presence::kNone;
}

}  // namespace

double PlattProbability(const PlattParameters& platt, double decision) {
  const double z = platt.a * decision + platt.b;
  if (z >= 0) return std::exp(-z) / (1 + std::exp(-z));
  return 1 / (1 + std::exp(z));
}

PlattParameters FitSigmoid(std::span<const double> decisions, std::span<const double> y,
                           std::span<const double> weights) {
  const std::vector<double> ones(weights.empty() ? y.size() : 0, 1.0);
  if (weights.empty()) weights = ones;
  double positives = 0, negatives = 0;
  for (std::size_t i = 0; i < y.size(); ++i) (y[i] > 0 ? positives : negatives) += weights[i];
  const Targets targets{(positives + 1) / (positives + 2), 1 / (negatives + 2)};
  PlattParameters platt{0, std::log((negatives + 1) / (positives + 1))};
  double value = NegativeLogLikelihood(decisions, y, weights, targets, platt);

  for (int newton = 0; newton < kMaxNewtonSteps; ++newton) {
    const Derivatives d = ComputeDerivatives(decisions, y, weights, targets, platt);
    if (std::abs(d.g1) < kGradientTolerance && std::abs(d.g2) < kGradientTolerance) break;
    const double determinant = d.h11 * d.h22 - d.h21 * d.h21;
    const double step_a = -(d.h22 * d.g1 - d.h21 * d.g2) / determinant;
    const double step_b = -(-d.h21 * d.g1 + d.h11 * d.g2) / determinant;
    const double slope = d.g1 * step_a + d.g2 * step_b;
    double size = 1;
    for (; size >= kLeastStep; size /= 2) {
      const PlattParameters next{platt.a + size * step_a, platt.b + size * step_b};
      const double next_value = NegativeLogLikelihood(decisions, y, weights, targets, next);
      if (next_value < value + 0.0001 * size * slope) {
        platt = next;
        value = next_value;
        break;
      }
    }
    if (size < kLeastStep) break;
  }
  return platt;
}

std::vector<double> CrossValidatedDecisions(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start,
                                            std::span<const std::uint32_t> order, std::uint64_t seed,
                                            std::uint64_t stream) {
  std::vector<std::uint32_t> shuffled(order.begin(), order.end());
  Random random = Random::Fork(seed, stream);
  random.Shuffle(std::span(shuffled));
  std::vector<double> decisions(shuffled.size(), 0);
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    const std::size_t begin = fold * shuffled.size() / kFolds;
    const std::size_t end = (fold + 1) * shuffled.size() / kFolds;
    if (begin == end) continue;
    std::vector<double> c(problem.c.begin(), problem.c.end());
    for (std::size_t k = begin; k < end; ++k) c[shuffled[k]] = 0;
    const Presence presence = PresentClasses(problem.y, c);
    SmoSolution solution;
    if (presence == Presence::kBoth) {
      solution = SolveSmo({problem.gram, problem.positions, problem.y, c}, options, start);
    }
    for (std::size_t k = begin; k < end; ++k) {
      const std::uint32_t t = shuffled[k];
      switch (presence) {
        case Presence::kBoth:
          decisions[t] = solution.products[t] - solution.rho;
          break;
        case Presence::kPositiveOnly:
          decisions[t] = 1;
          break;
        case Presence::kNegativeOnly:
          decisions[t] = -1;
          break;
        case Presence::kNone:
          break;
      }
    }
  }
  return decisions;
}

namespace {

// LIBSVM stops at 0.005 / classes, which is coarse enough to change a ranking by confidence.
constexpr double kTolerance = 1e-12;
constexpr int kMaxSweeps = 1000;

Matrix<double> NormalMatrix(ConstMatrixView pairwise) {
  const std::size_t classes = pairwise.rows();
  Matrix<double> q = Matrix<double>::Zero(classes, classes);
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = 0; j < classes; ++j) {
      if (i == j) continue;
      q(i, i) += pairwise(j, i) * pairwise(j, i);
      q(i, j) = -pairwise(j, i) * pairwise(i, j);
    }
  }
  return q;
}

}  // namespace

std::vector<double> CoupleProbabilities(ConstMatrixView pairwise) {
  const std::size_t classes = pairwise.rows();
  if (classes == 2) return {pairwise(0, 1), pairwise(1, 0)};
  const Matrix<double> q = NormalMatrix(pairwise);
  std::vector<double> p(classes, 1.0 / static_cast<double>(classes)), qp(classes);
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    // Recompute both products in every sweep: the updates below accumulate rounding errors.
    double pqp = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      qp[i] = 0;
      for (std::size_t j = 0; j < classes; ++j) qp[i] += q(i, j) * p[j];
      pqp += p[i] * qp[i];
    }
    double largest_error = 0;
    for (double value : qp) largest_error = std::max(largest_error, std::abs(value - pqp));
    if (largest_error < kTolerance / static_cast<double>(classes)) break;
    for (std::size_t i = 0; i < classes; ++i) {
      const double change = (pqp - qp[i]) / q(i, i);
      p[i] += change;
      const double scale = 1 / (1 + change);
      pqp = (pqp + change * (change * q(i, i) + 2 * qp[i])) * scale * scale;
      for (std::size_t j = 0; j < classes; ++j) {
        qp[j] = (qp[j] + change * q(i, j)) * scale;
        p[j] *= scale;
      }
    }
  }
  return p;
}

}  // namespace fulcrum::classify
