#include "stages/classify/logistic_solver.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

LogisticSolver::LogisticSolver(const LogisticProblem& problem, Functions start)
    : problem_(problem),
      at_(std::move(start)),
      probabilities_(problem.gram.rows(), problem.class_count),
      gradient_(problem.gram.rows(), problem.class_count) {
  double largest = 0;
  for (std::size_t i = 0; i < problem.gram.rows(); ++i) largest = std::max(largest, problem.gram(i, i));
  // Values of a function are at most its norm times the square root of the kernel's diagonal.
  small_gradient_ = problem.tolerance / std::max(1.0, std::sqrt(largest));
  if (problem.class_count == 2) at_.MakeOpposite();
  Multiply(at_);
  // Without a label that was withdrawn, what is left of a solution may be far worse than no start at all.
  const double at_zero = std::log(static_cast<double>(problem.class_count)) *
                         std::accumulate(problem.costs.begin(), problem.costs.end(), 0.0);
  if (!(Loss(nullptr, 0, nullptr) + SquaredNorm(at_, at_) / 2 < at_zero)) {
    at_ = Functions(problem.gram.rows(), problem.class_count);
  }
}

void LogisticSolver::Solve() {
  double first_norm = 0;
  for (; steps_ < kMostSteps; ++steps_) {
    ThrowIfStopRequested();
    ComputeGradient();
    const double norm = std::sqrt(std::max(gradient_.Dot(gradient_), 0.0));
    if (norm <= small_gradient_) return;
    if (steps_ == 0) first_norm = norm;
    const Functions direction = NewtonDirection(norm, std::min(kForcing, std::sqrt(norm / first_norm)));
    if (!Step(direction)) return;
  }
  converged_ = false;
}

void LogisticSolver::Multiply(Functions& functions) {
  ++products_;
  const bool opposite = problem_.class_count == 2;
  ParallelForBlocks(problem_.gram.rows(), kRowsAtOnce, [&](std::size_t first, std::size_t count) {
    const ConstMatrixView rows = problem_.gram.Rows(first, count);
    if (opposite) {
      linalg::Gemv(linalg::Transpose::kNo, 1, rows, functions.alpha.row(0), 0,
                   functions.values.row(0).subspan(first, count));
      std::ranges::transform(functions.values.row(0).subspan(first, count),
                             functions.values.row(1).subspan(first).begin(), std::negate());
    } else {
      linalg::Gemm(linalg::Transpose::kNo, linalg::Transpose::kYes, 1, functions.alpha.view(), rows, 0,
                   functions.values.view().Cols(first, count));
    }
  });
}

double LogisticSolver::Loss(const Functions* direction, double size, Matrix<double>* probabilities) const {
  double total = 0;
  std::vector<double> row(problem_.class_count);
  for (std::size_t i = 0; i < problem_.gram.rows(); ++i) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      row[k] = at_.values(k, i) + at_.intercepts[k];
      if (direction != nullptr) row[k] += size * (direction->values(k, i) + direction->intercepts[k]);
    }
    const double largest = *std::ranges::max_element(row), own = row[problem_.classes[i]];
    double sum = 0;
    for (double& value : row) sum += value = std::exp(value - largest);
    total += problem_.costs[i] * (std::log(sum) + largest - own);
    if (probabilities == nullptr) continue;
    for (std::size_t k = 0; k < row.size(); ++k) (*probabilities)(i, k) = row[k] / sum;
  }
  return total;
}

double LogisticSolver::SquaredNorm(const Functions& a, const Functions& b) const {
  return a.Dot(b) - linalg::Dot(a.intercepts, b.intercepts);  // intercepts cost nothing
}

void LogisticSolver::ComputeGradient() {
  objective_ = Loss(nullptr, 0, &probabilities_) + SquaredNorm(at_, at_) / 2;
  std::ranges::fill(gradient_.intercepts, 0.0);
  for (std::size_t i = 0; i < problem_.gram.rows(); ++i) {
    for (std::size_t k = 0; k < problem_.class_count; ++k) {
      const double residual = problem_.costs[i] * (probabilities_(i, k) - (problem_.classes[i] == k ? 1 : 0));
      gradient_.alpha(k, i) = residual + at_.alpha(k, i);
      gradient_.intercepts[k] += residual;
    }
  }
  Multiply(gradient_);
}

void LogisticSolver::ApplyHessian(const Functions& of, Functions& out) const {
  std::ranges::fill(out.intercepts, 0.0);
  for (std::size_t i = 0; i < problem_.gram.rows(); ++i) {
    const std::span<const double> p = probabilities_.row(i);
    double mean = 0;
    for (std::size_t k = 0; k < p.size(); ++k) mean += p[k] * (of.values(k, i) + of.intercepts[k]);
    for (std::size_t k = 0; k < p.size(); ++k) {
      const double change = problem_.costs[i] * p[k] * (of.values(k, i) + of.intercepts[k] - mean);
      out.alpha(k, i) = of.alpha(k, i) + change;
      out.intercepts[k] += change;
    }
  }
}

Functions LogisticSolver::NewtonDirection(double norm, double forcing) {
  const std::size_t examples = problem_.gram.rows(), classes = problem_.class_count;
  Functions direction(examples, classes), residual(examples, classes), search(examples, classes),
      product(examples, classes);
  residual.Add(-1, gradient_);
  search.Add(1, residual);
  double squared = norm * norm;
  for (std::size_t i = 0; i < kMostProducts; ++i) {
    ApplyHessian(search, product);
    const double curvature = product.Dot(search);
    if (!(curvature > 0)) break;
    const double size = squared / curvature;
    direction.Add(size, search);
    for (std::size_t k = 0; k < classes; ++k) linalg::Axpy(-size, product.alpha.row(k), residual.alpha.row(k));
    linalg::Axpy(-size, product.intercepts, residual.intercepts);
    Multiply(residual);
    const double next = std::max(residual.Dot(residual), 0.0);
    if (std::sqrt(next) <= std::max(forcing * norm, small_gradient_ / 10)) break;
    search.Scale(next / squared);
    search.Add(1, residual);
    squared = next;
  }
  return direction;
}

bool LogisticSolver::Step(const Functions& direction) {
  const double slope = gradient_.Dot(direction);
  const double bend = SquaredNorm(direction, direction), along = SquaredNorm(direction, at_),
               here = SquaredNorm(at_, at_);
  const double rounding = 1e-14 * (1 + std::abs(objective_));
  for (double size = 1; size >= kLeastStep; size /= 2) {
    const double there = Loss(&direction, size, nullptr) + (here + 2 * size * along + size * size * bend) / 2;
    if (there > objective_ + kSufficientDecrease * size * slope + rounding) continue;
    at_.Add(size, direction);
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
    LogisticSolver solver(problem, std::move(fitted));
    solver.Solve();
    fitted = std::move(solver.result());
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
