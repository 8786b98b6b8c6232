#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <limits>

#include "stages/classify/svm_trainer.h"
#include "stages/core/parallel.h"

namespace fulcrum::classify {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kShrinkInterval = 1000;
constexpr std::size_t kStepsBetweenStopChecks = 256;

/// The signed formulation of the working set (svm_trainer.h): beta = y alpha in [lower, upper], f the gradient.
class Solver {
 public:
  Solver(const SmoProblem& problem, const SmoOptions& options);
  SmoSolution Solve(const SmoStart& start);

 private:
  void StartFrom(const SmoStart& start);
  void LoadActive();
  void StoreActive();
  void SetPenalties(std::size_t slot);
  bool Iterate();
  double Step(std::size_t i, std::size_t j, const double* row_i);
  void MoveToBoundExactly(std::size_t example, double room, double step, double bound, double next);
  void ShrinkIfDue(const SecondChoice& second);
  void Shrink(double smallest_up, double largest_low);
  void Unshrink();
  bool AllActive() const { return kernel_.active_count() == beta_.size(); }
  double Rho() const;
  SmoSolution Finish() const;

  const SmoProblem& problem_;
  const SmoOptions& options_;
  ActiveKernel kernel_;
  std::size_t max_iterations_;

  // Per example.
  std::vector<double> lower_, upper_, beta_, gradient_;
  // Per example, as of the last time that the gradient of all examples was known; used to reconstruct the others.
  std::vector<double> known_beta_, known_gradient_;
  // Per active slot.
  std::vector<double> f_, up_penalty_, low_penalty_, diagonal_;

  FirstChoice first_;
  std::size_t iterations_ = 0;
  std::size_t until_shrink_ = 0;
  bool near_the_end_ = false;
  bool converged_ = false;
};

Solver::Solver(const SmoProblem& problem, const SmoOptions& options)
    : problem_(problem), options_(options), kernel_(problem.gram, problem.positions) {
  const std::size_t count = problem.positions.size();
  assert(problem.y.size() == count && problem.c.size() == count);
  max_iterations_ =
      options.max_iterations != 0 ? options.max_iterations : std::max<std::size_t>(10'000'000, 100 * count);
  lower_.resize(count);
  upper_.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    lower_[t] = problem.y[t] > 0 ? 0 : -problem.c[t];
    upper_[t] = problem.y[t] > 0 ? problem.c[t] : 0;
  }
  until_shrink_ = std::min(count, kShrinkInterval);
}

void Solver::StartFrom(const SmoStart& start) {
  const std::size_t count = lower_.size();
  std::vector<double> wished(count, 0);
  gradient_.assign(count, 0);
  if (!start.alpha.empty()) {
    for (std::size_t t = 0; t < count; ++t) wished[t] = problem_.y[t] * start.alpha[t];
  }
  beta_ = wished;
  MakeFeasible(lower_, upper_, beta_);
  const bool products_known = !start.products.empty();
  if (products_known) std::copy(start.products.begin(), start.products.end(), gradient_.begin());

  std::vector<std::uint32_t> changed;
  std::vector<double> change;
  for (std::uint32_t t = 0; t < count; ++t) {
    const double difference = beta_[t] - (products_known ? wished[t] : 0);
    if (difference == 0) continue;
    changed.push_back(t);
    change.push_back(difference);
  }
  kernel_.AccumulateProduct(changed, change, gradient_);
  for (std::size_t t = 0; t < count; ++t) gradient_[t] -= problem_.y[t];
}

void Solver::SetPenalties(std::size_t slot) {
  const std::size_t example = kernel_.active()[slot];
  up_penalty_[slot] = beta_[example] < upper_[example] ? 0 : kInfinity;
  low_penalty_[slot] = beta_[example] > lower_[example] ? 0 : kInfinity;
}

void Solver::LoadActive() {
  const std::size_t count = kernel_.active_count();
  for (auto* values : {&f_, &up_penalty_, &low_penalty_, &diagonal_}) values->resize(count);
  for (std::size_t slot = 0; slot < count; ++slot) {
    const std::size_t example = kernel_.active()[slot];
    f_[slot] = gradient_[example];
    diagonal_[slot] = kernel_.Diagonal(example);
    SetPenalties(slot);
  }
  first_ = SelectFirst(f_, up_penalty_);
}

void Solver::StoreActive() {
  for (std::size_t slot = 0; slot < f_.size(); ++slot) gradient_[kernel_.active()[slot]] = f_[slot];
}

/// A multiplier that reaches its bound is set to the bound exactly, without a rounding error.
void Solver::MoveToBoundExactly(std::size_t example, double room, double step, double bound, double next) {
  beta_[example] = step >= room ? bound : std::clamp(next, lower_[example], upper_[example]);
}

double Solver::Step(std::size_t i, std::size_t j, const double* row_i) {
  const std::size_t grows = kernel_.active()[i], shrinks = kernel_.active()[j];
  const double curvature = std::max(diagonal_[i] + diagonal_[j] - 2 * row_i[j], kLeastCurvature);
  const double room_up = upper_[grows] - beta_[grows];
  const double room_down = beta_[shrinks] - lower_[shrinks];
  const double step = std::min({(f_[j] - f_[i]) / curvature, room_up, room_down});
  MoveToBoundExactly(grows, room_up, step, upper_[grows], beta_[grows] + step);
  MoveToBoundExactly(shrinks, room_down, step, lower_[shrinks], beta_[shrinks] - step);
  SetPenalties(i);
  SetPenalties(j);
  return step;
}

/// Makes one step; returns false at the optimum.
bool Solver::Iterate() {
  SecondChoice second;
  if (first_.index != kNoExample) {
    const double* row_i = kernel_.Row(first_.index);
    second = SelectSecond(f_, low_penalty_, diagonal_, row_i, diagonal_[first_.index], first_.value);
  }
  const bool done = second.index == kNoExample || second.largest_low - first_.value < options_.tolerance;
  if (done && AllActive()) {
    converged_ = true;
    return false;
  }
  if (done) {
    Unshrink();
    // Shrink again after the next step: wrongly shrunk examples are found at the cost of one scan.
    until_shrink_ = 1;
    return true;
  }
  if (options_.shrinking && --until_shrink_ == 0) {
    until_shrink_ = std::min(beta_.size(), kShrinkInterval);
    ShrinkIfDue(second);
    return true;
  }
  const double* row_i = kernel_.Row(first_.index);
  const double* row_j = kernel_.Row(second.index);
  const double step = Step(first_.index, second.index, row_i);
  first_ = UpdateAndSelectFirst(f_, up_penalty_, row_i, row_j, step);
  return ++iterations_ < max_iterations_;
}

void Solver::ShrinkIfDue(const SecondChoice& second) {
  const double gap = second.largest_low - first_.value;
  if (!near_the_end_ && gap <= 10 * options_.tolerance) {
    near_the_end_ = true;
    if (!AllActive()) {
      Unshrink();
      until_shrink_ = 1;
      return;
    }
  }
  Shrink(first_.value, second.largest_low);
}

/// Removes examples at a bound whose gradient indicates that they will stay there.
void Solver::Shrink(double smallest_up, double largest_low) {
  std::vector<std::uint32_t> kept;
  for (std::size_t slot = 0; slot < f_.size(); ++slot) {
    const bool may_grow = up_penalty_[slot] == 0, may_shrink = low_penalty_[slot] == 0;
    const bool stays = (!may_grow || f_[slot] > largest_low) && (!may_shrink || f_[slot] < smallest_up);
    if (!stays) kept.push_back(static_cast<std::uint32_t>(slot));
  }
  // Gathering rows again pays off only if the scans become clearly shorter.
  if (kept.size() * 10 > f_.size() * 9) return;
  StoreActive();
  if (AllActive()) {
    known_beta_ = beta_;
    known_gradient_ = gradient_;
  }
  kernel_.Restrict(kept);
  LoadActive();
}

void Solver::Unshrink() {
  std::vector<std::uint32_t> changed;
  std::vector<double> change;
  for (std::uint32_t t = 0; t < beta_.size(); ++t) {
    if (beta_[t] == known_beta_[t]) continue;
    changed.push_back(t);
    change.push_back(beta_[t] - known_beta_[t]);
  }
  gradient_ = known_gradient_;
  kernel_.AccumulateProduct(changed, change, gradient_);
  kernel_.ActivateAll();
  LoadActive();
}

double Solver::Rho() const {
  double free_sum = 0, least_upper = kInfinity, largest_lower = -kInfinity;
  std::size_t free_count = 0;
  for (std::size_t t = 0; t < beta_.size(); ++t) {
    if (lower_[t] == upper_[t]) continue;
    if (beta_[t] == lower_[t]) {
      least_upper = std::min(least_upper, gradient_[t]);
    } else if (beta_[t] == upper_[t]) {
      largest_lower = std::max(largest_lower, gradient_[t]);
    } else {
      free_sum += gradient_[t];
      ++free_count;
    }
  }
  if (free_count > 0) return free_sum / static_cast<double>(free_count);
  // If one class is held out completely, only one of the bounds exists.
  if (std::isinf(least_upper)) return std::isinf(largest_lower) ? 0 : largest_lower;
  return std::isinf(largest_lower) ? least_upper : (least_upper + largest_lower) / 2;
}

SmoSolution Solver::Finish() const {
  SmoSolution solution;
  solution.alpha.resize(beta_.size());
  solution.products.resize(beta_.size());
  for (std::size_t t = 0; t < beta_.size(); ++t) {
    solution.alpha[t] = std::abs(beta_[t]);
    solution.products[t] = gradient_[t] + problem_.y[t];
    solution.objective += 0.5 * (beta_[t] * gradient_[t] - solution.alpha[t]);
  }
  solution.rho = Rho();
  solution.iterations = iterations_;
  solution.converged = converged_;
  return solution;
}

SmoSolution Solver::Solve(const SmoStart& start) {
  StartFrom(start);
  LoadActive();
  for (std::size_t step = 0; Iterate(); ++step) {
    if (step % kStepsBetweenStopChecks == 0) ThrowIfStopRequested();
  }
  if (!AllActive()) Unshrink();
  StoreActive();
  return Finish();
}

}  // namespace

SmoSolution SolveSmo(const SmoProblem& problem, const SmoOptions& options, const SmoStart& start) {
  return Solver(problem, options).Solve(start);
}

namespace {

// A sum this close to zero is rounding of the solver; a feasible start is not changed.
constexpr double kRoundingShare = 1e-13;

/// Moves multipliers with the sign of `excess` towards zero until the excess is used up.
void Absorb(std::span<const double> lower, std::span<const double> upper, bool at_bound, std::span<double> beta,
            double& excess) {
  for (std::size_t t = 0; t < beta.size() && excess != 0; ++t) {
    if (beta[t] * excess <= 0 || (beta[t] == lower[t] || beta[t] == upper[t]) != at_bound) continue;
    const double taken = std::abs(beta[t]) < std::abs(excess) ? beta[t] : excess;
    beta[t] = taken == beta[t] ? 0 : beta[t] - taken;
    excess -= taken;
  }
}

}  // namespace

void MakeFeasible(std::span<const double> lower, std::span<const double> upper, std::span<double> beta) {
  double excess = 0, mass = 0;
  for (std::size_t t = 0; t < beta.size(); ++t) {
    beta[t] = std::clamp(beta[t], lower[t], upper[t]);
    excess += beta[t];
    mass += std::abs(beta[t]);
  }
  if (std::abs(excess) <= kRoundingShare * mass) return;
  Absorb(lower, upper, /*at_bound=*/false, beta, excess);
  Absorb(lower, upper, /*at_bound=*/true, beta, excess);
}

}  // namespace fulcrum::classify
