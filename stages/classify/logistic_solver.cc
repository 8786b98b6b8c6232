#include "stages/classify/logistic_solver.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "stages/classify/classifier.h"
#include "stages/core/parallel.h"

namespace fulcrum::classify {
namespace {

constexpr std::size_t kMostSteps = 100;
constexpr std::size_t kMostProducts = 500;  // per step
constexpr double kForcing = 0.1;            // conjugate gradients end at this share of the gradient, or less
constexpr double kSufficientDecrease = 1e-4;
constexpr double kLeastStep = 1e-10;
// Of scores in cross-validation: settings differ by more.
constexpr double kScoreTolerance = 1e-2;
constexpr std::size_t kRowsAtOnce = 256;

}  // namespace

LogisticSolver::LogisticSolver(const LogisticProblem& problem, const Functions& start)
    : problem_(problem),
      at_(problem.gram.rows(), opposite() ? 1 : problem.class_count),
      probabilities_(at_.alpha.rows(), problem.gram.rows()),
      curvatures_(opposite() ? 1 : 0, problem.gram.rows()),
      gradient_(problem.gram.rows(), at_.alpha.rows()),
      before_(problem.gram.rows(), at_.alpha.rows()),
      direction_(problem.gram.rows(), at_.alpha.rows()),
      residual_(problem.gram.rows(), at_.alpha.rows()),
      search_(problem.gram.rows(), at_.alpha.rows()),
      product_(problem.gram.rows(), at_.alpha.rows()) {
  double largest = 0;
  for (std::size_t i = 0; i < problem.gram.rows(); ++i) largest = std::max(largest, problem.gram(i, i));
  // Values of a function are at most its norm times the square root of the kernel's diagonal.
  small_gradient_ = problem.tolerance / std::max(1.0, std::sqrt(largest));
  if (opposite()) {
    // The closest functions that are each other's negative.
    at_.intercepts[0] = (start.intercepts[0] - start.intercepts[1]) / 2;
    for (std::size_t i = 0; i < at_.alpha.cols(); ++i) at_.alpha(0, i) = (start.alpha(0, i) - start.alpha(1, i)) / 2;
  } else {
    at_.Assign(start);
  }
  Multiply(at_);
  // Without a label that was withdrawn, what is left of a solution may be far worse than no start at all.
  const double at_zero = std::log(static_cast<double>(problem.class_count)) *
                         std::accumulate(problem.costs.begin(), problem.costs.end(), 0.0);
  if (!(objective() < at_zero)) at_ = Functions(problem.gram.rows(), at_.alpha.rows());
}

void LogisticSolver::Solve() {
  ComputeGradient();
  double norm = GradientNorm();
  const double first_norm = norm;
  for (std::size_t steps = 0; norm > small_gradient_; ++steps) {
    ThrowIfStopRequested();
    if (steps == kMostSteps) {
      converged_ = false;
      return;
    }
    FindDirection(norm, std::min(kForcing, std::sqrt(norm / first_norm)));
    before_.Assign(at_);
    at_.Add(1, direction_);
    ComputeGradient();
    double next = GradientNorm();
    // Almost every step makes the gradient smaller. If one does not, the objective decides how long it is.
    if (!(next < norm)) {
      at_.Assign(before_);
      ComputeGradient();
      if (!Step()) return;
      ComputeGradient();
      next = GradientNorm();
    }
    norm = next;
  }
}

Functions LogisticSolver::result() const {
  Functions both(problem_.gram.rows(), problem_.class_count);
  if (!opposite()) {
    both.Assign(at_);
    return both;
  }
  for (const std::size_t k : {0, 1}) {
    const double sign = k == 0 ? 1 : -1;
    for (std::size_t i = 0; i < problem_.gram.rows(); ++i) {
      both.alpha(k, i) = sign * at_.alpha(0, i);
      both.values(k, i) = sign * at_.values(0, i);
    }
    both.intercepts[k] = sign * at_.intercepts[0];
  }
  return both;
}

double LogisticSolver::objective() const {
  return Loss(nullptr, 0) + DotOfFunctions(at_, at_) / 2;
}

void LogisticSolver::Multiply(Functions& functions) {
  ++products_;
  const auto multiply = [&](std::size_t first, std::size_t count) {
    const ConstMatrixView rows = problem_.gram.Rows(first, count);
    if (opposite()) {
      linalg::Gemv(linalg::Transpose::kNo, 1, rows, functions.alpha.row(0), 0,
                   functions.values.row(0).subspan(first, count));
    } else {
      linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1, functions.alpha.view(), rows, 0,
                   functions.values.view().Cols(first, count));
    }
  };
  if (problem_.gram.rows() <= kRowsAtOnce) return multiply(0, problem_.gram.rows());
  ParallelForBlocks(problem_.gram.rows(), kRowsAtOnce, multiply);
}

double LogisticSolver::DotOfFunctions(const Functions& a, const Functions& b) const {
  return Dot(a, b) - (opposite() ? 2 : 1) * linalg::Dot(a.intercepts, b.intercepts);
}

double LogisticSolver::Loss(const Functions* direction, double size) const {
  double total = 0;
  std::vector<double> row(problem_.class_count);
  for (std::size_t i = 0; i < problem_.gram.rows(); ++i) {
    for (std::size_t k = 0; k < at_.alpha.rows(); ++k) {
      row[k] = at_.values(k, i) + at_.intercepts[k];
      if (direction != nullptr) row[k] += size * (direction->values(k, i) + direction->intercepts[k]);
    }
    if (opposite()) row[1] = -row[0];
    const double largest = *std::ranges::max_element(row), own = row[problem_.classes[i]];
    double sum = 0;
    for (const double value : row) sum += std::exp(value - largest);
    total += problem_.costs[i] * (std::log(sum) + largest - own);
  }
  return total;
}

void LogisticSolver::ComputeGradient() {
  const std::size_t examples = problem_.gram.rows(), functions = at_.alpha.rows();
  for (std::size_t k = 0; k < functions; ++k) {
    const std::span<const double> values = at_.values.row(k);
    const std::span<double> p = probabilities_.row(k);
    for (std::size_t i = 0; i < examples; ++i) p[i] = values[i] + at_.intercepts[k];
  }
  if (opposite()) {
    // exp(-2 |f|) neither overflows nor loses the smaller one of the two probabilities.
    const std::span<double> p = probabilities_.row(0), curvatures = curvatures_.row(0);
    for (std::size_t i = 0; i < examples; ++i) curvatures[i] = -2 * std::abs(p[i]);
    linalg::ExpInPlace(curvatures);
    for (std::size_t i = 0; i < examples; ++i) {
      const double smaller = curvatures[i] / (1 + curvatures[i]), larger = 1 / (1 + curvatures[i]);
      p[i] = p[i] < 0 ? smaller : larger;
      curvatures[i] = 2 * problem_.costs[i] * smaller * larger;
    }
  } else {
    for (std::size_t i = 0; i < examples; ++i) {
      double largest = probabilities_(0, i);
      for (std::size_t k = 1; k < functions; ++k) largest = std::max(largest, probabilities_(k, i));
      for (std::size_t k = 0; k < functions; ++k) probabilities_(k, i) -= largest;
    }
    for (std::size_t k = 0; k < functions; ++k) linalg::ExpInPlace(probabilities_.row(k));
    for (std::size_t i = 0; i < examples; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < functions; ++k) sum += probabilities_(k, i);
      for (std::size_t k = 0; k < functions; ++k) probabilities_(k, i) /= sum;
    }
  }
  for (std::size_t k = 0; k < functions; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < examples; ++i) {
      const double residual = problem_.costs[i] * (probabilities_(k, i) - (problem_.classes[i] == k ? 1 : 0));
      gradient_.alpha(k, i) = residual + at_.alpha(k, i);
      sum += residual;
    }
    gradient_.intercepts[k] = sum;
  }
  Multiply(gradient_);
}

double LogisticSolver::GradientNorm() const {
  return std::sqrt(std::max(Dot(gradient_, gradient_), 0.0));
}

void LogisticSolver::ApplyHessian(const Functions& of, Functions& out) const {
  const std::size_t examples = problem_.gram.rows(), functions = at_.alpha.rows();
  if (opposite()) {
    const std::span<const double> curvatures = curvatures_.row(0), alpha = of.alpha.row(0), values = of.values.row(0);
    const std::span<double> to = out.alpha.row(0);
    const double intercept = of.intercepts[0];
    for (std::size_t i = 0; i < examples; ++i) to[i] = curvatures[i] * (values[i] + intercept);
    out.intercepts[0] = std::accumulate(to.begin(), to.end(), 0.0);
    for (std::size_t i = 0; i < examples; ++i) to[i] += alpha[i];
    return;
  }
  std::vector<double> means(examples, 0.0);
  for (std::size_t k = 0; k < functions; ++k) {
    const std::span<const double> p = probabilities_.row(k), values = of.values.row(k);
    for (std::size_t i = 0; i < examples; ++i) means[i] += p[i] * (values[i] + of.intercepts[k]);
  }
  for (std::size_t k = 0; k < functions; ++k) {
    const std::span<const double> p = probabilities_.row(k), values = of.values.row(k), alpha = of.alpha.row(k);
    const std::span<double> to = out.alpha.row(k);
    for (std::size_t i = 0; i < examples; ++i) {
      to[i] = problem_.costs[i] * p[i] * (values[i] + of.intercepts[k] - means[i]);
    }
    out.intercepts[k] = std::accumulate(to.begin(), to.end(), 0.0);
    for (std::size_t i = 0; i < examples; ++i) to[i] += alpha[i];
  }
}

void LogisticSolver::FindDirection(double norm, double forcing) {
  direction_ = Functions(problem_.gram.rows(), at_.alpha.rows());
  residual_ = Functions(problem_.gram.rows(), at_.alpha.rows());
  residual_.Add(-1, gradient_);
  search_.Assign(residual_);
  double squared = norm * norm;
  for (std::size_t i = 0; i < kMostProducts; ++i) {
    ApplyHessian(search_, product_);
    // The values of the product are not known; the inner product does not depend on which of the two has them.
    const double curvature = Dot(product_, search_);
    if (!(curvature > 0)) break;
    const double size = squared / curvature;
    direction_.Add(size, search_);
    for (std::size_t k = 0; k < residual_.alpha.rows(); ++k) {
      linalg::Axpy(-size, product_.alpha.row(k), residual_.alpha.row(k));
    }
    linalg::Axpy(-size, product_.intercepts, residual_.intercepts);
    Multiply(residual_);
    const double next = std::max(Dot(residual_, residual_), 0.0);
    if (std::sqrt(next) <= std::max(forcing * norm, small_gradient_ / 10)) break;
    search_.ScaleAndAdd(next / squared, residual_);
    squared = next;
  }
}

bool LogisticSolver::Step() {
  const double slope = Dot(gradient_, direction_), before = objective();
  const double bend = DotOfFunctions(direction_, direction_), along = DotOfFunctions(direction_, at_),
               here = DotOfFunctions(at_, at_);
  const double rounding = 1e-14 * (1 + std::abs(before));
  for (double size = 1; size >= kLeastStep; size /= 2) {
    const double there = Loss(&direction_, size) + (here + 2 * size * along + size * size * bend) / 2;
    if (there > before + kSufficientDecrease * size * slope + rounding) continue;
    at_.Add(size, direction_);
    return true;
  }
  return false;
}

std::vector<Matrix<double>> ScoreWithLogistic(const GramExamples& examples, std::span<const std::uint32_t> held_out,
                                              std::span<const double> penalties) {
  // Classes without examples have no function: an intercept would go to minus infinity.
  std::map<std::size_t, std::size_t> place;
  for (const std::uint32_t position : examples.positions) place.emplace(examples.classes[position], 0);
  std::size_t count = 0;
  for (auto& [index, at] : place) at = count++;
  std::vector<Matrix<double>> scores;
  for (std::size_t i = 0; i < penalties.size(); ++i) {
    Matrix<double>& absent = scores.emplace_back(held_out.size(), examples.class_count);
    for (std::size_t t = 0; t < held_out.size(); ++t) {
      std::ranges::fill(absent.row(t), kAbsentScore);
      if (count == 1) absent(t, place.begin()->first) = 0;
    }
  }
  if (count < 2) return scores;
  const std::size_t size = examples.positions.size();
  Matrix<double> gram(size, size), crossed(held_out.size(), size);
  std::vector<std::size_t> classes;
  std::vector<double> class_costs, costs(size);
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t position = examples.positions[i];
    for (std::size_t j = 0; j < size; ++j) gram(i, j) = examples.gram(position, examples.positions[j]);
    for (std::size_t t = 0; t < held_out.size(); ++t) crossed(t, i) = examples.gram(held_out[t], position);
    classes.push_back(place[examples.classes[position]]);
    class_costs.push_back(CostFactor(count) * examples.costs[examples.classes[position]] * examples.WeightOf(position));
  }
  Functions fitted(size, count);  // the solution for one penalty is where the next one begins
  Matrix<double> found(held_out.size(), count);
  for (std::size_t i = 0; i < penalties.size(); ++i) {
    for (std::size_t example = 0; example < size; ++example) costs[example] = penalties[i] * class_costs[example];
    const LogisticProblem problem{gram.view(), classes, count, costs, kScoreTolerance};
    LogisticSolver solver(problem, fitted);
    solver.Solve();
    fitted = solver.result();
    linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1, crossed.view(), fitted.alpha.view(), 0,
                 found.view());
    for (std::size_t t = 0; t < held_out.size(); ++t) {
      for (const auto& [index, at] : place) {
        scores[i](t, index) = std::max(found(t, at) + fitted.intercepts[at], kAbsentScore);
      }
    }
  }
  return scores;
}

}  // namespace fulcrum::classify
