// Kernel logistic regression: a softmax over the classes with a function of the kernel's space and an intercept each.
//
//   minimise  sum_i c_i loss(F_i, y_i) + 1/2 sum_k |f_k|^2,   F = K A + 1 b',   f_k = sum_i A_ik K(x_i, .)
//
// with the cross entropy as the loss and c_i = C times the weight of the class. With a linear kernel this is the usual
// L2-regularised multinomial model; with two classes C is halved, which makes it the usual binary one. Newton's method,
// each step by conjugate gradients in the kernel's inner product <A, B> = tr(A'KB), in which the Hessian is at least
// the identity: the norm of the gradient bounds the distance to the solution. A product with K per iteration is all the
// work. As the model of a pair of classes the difference of their functions has the same class (it wins all its votes)
// and the same probabilities (pairwise sigmoids of differences couple to the softmax).
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "stages/classify/classifier.h"
#include "stages/core/parallel.h"
#include "stages/core/status_macros.h"
#include "stages/linalg/blas.h"

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

/// A function per class and an intercept each. `values` is the functions at the examples without intercepts, K alpha.
struct Functions {
  Functions(std::size_t examples, std::size_t classes)
      : alpha(Matrix<double>::Zero(classes, examples)),
        values(Matrix<double>::Zero(classes, examples)),
        intercepts(classes, 0.0) {}

  Matrix<double> alpha;  // classes x examples
  Matrix<double> values;
  std::vector<double> intercepts;

  double Dot(const Functions& other) const {
    double sum = linalg::Dot(intercepts, other.intercepts);
    for (std::size_t k = 0; k < alpha.rows(); ++k) sum += linalg::Dot(alpha.row(k), other.values.row(k));
    return sum;
  }
  void Add(double factor, const Functions& other) {
    for (std::size_t k = 0; k < alpha.rows(); ++k) {
      linalg::Axpy(factor, other.alpha.row(k), alpha.row(k));
      linalg::Axpy(factor, other.values.row(k), values.row(k));
    }
    linalg::Axpy(factor, other.intercepts, intercepts);
  }
  void Scale(double factor) {
    for (std::size_t k = 0; k < alpha.rows(); ++k) {
      for (double& value : alpha.row(k)) value *= factor;
      for (double& value : values.row(k)) value *= factor;
    }
    for (double& value : intercepts) value *= factor;
  }
  /// The closest functions of two classes that are each other's negative, as the solution is.
  void MakeOpposite() {
    intercepts[0] = (intercepts[0] - intercepts[1]) / 2;
    intercepts[1] = -intercepts[0];
    for (std::size_t i = 0; i < alpha.cols(); ++i) {
      alpha(0, i) = (alpha(0, i) - alpha(1, i)) / 2;
      alpha(1, i) = -alpha(0, i);
    }
  }
};

struct LogisticProblem {
  ConstMatrixView gram;                  // of the examples
  std::span<const std::size_t> classes;  // by example
  std::size_t class_count = 0;
  std::span<const double> costs;  // by example
  double tolerance = 1e-3;        // of the values of the functions
};

class LogisticSolver {
 public:
  LogisticSolver(const LogisticProblem& problem, Functions start)
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

  void Solve() {
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

  Functions& result() { return at_; }
  double objective() const { return objective_; }
  std::size_t products() const { return products_; }
  bool converged() const { return converged_; }

 private:
  /// values = K alpha. The functions of two classes are each other's negative: one product is enough.
  void Multiply(Functions& functions) {
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

  /// Cross entropy of the functions `at_` moved along a direction, and the probabilities there if they are wanted.
  double Loss(const Functions* direction, double size, Matrix<double>* probabilities) const {
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

  double SquaredNorm(const Functions& a, const Functions& b) const {
    return a.Dot(b) - linalg::Dot(a.intercepts, b.intercepts);  // intercepts cost nothing
  }

  void ComputeGradient() {
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

  /// alpha and intercepts of the Hessian times `of`; its values are not set.
  void ApplyHessian(const Functions& of, Functions& out) const {
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

  /// Conjugate gradients for Hessian * direction = -gradient.
  Functions NewtonDirection(double norm, double forcing) {
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

  /// Moves along the direction as far as the objective falls. False if it does not fall: rounding errors hide it.
  bool Step(const Functions& direction) {
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

  const LogisticProblem& problem_;
  Functions at_;
  Matrix<double> probabilities_;  // at `at_`
  Functions gradient_;
  double objective_ = 0;
  double small_gradient_ = 0;
  std::size_t steps_ = 0;
  std::size_t products_ = 0;
  bool converged_ = true;
};

/// The usual binary model has one function, not two of half its size.
double CostFactor(std::size_t class_count) {
  return class_count == 2 ? 0.5 : 1;
}

}  // namespace

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

namespace {

class Logistic final : public Classifier {
 public:
  Logistic(const SvmParameters& parameters, const kernel::Features& features)
      : parameters_(parameters), features_(&features), gram_(parameters_.kernel, features) {}

  absl::StatusOr<SvmModel> Train(std::span<const ClassIndex> labels, std::size_t class_count) override {
    FULCRUM_ASSIGN_OR_RETURN(present_, CheckTraining(parameters_, *features_, labels, class_count));
    RowList rows;
    for (std::size_t row = 0; row < labels.size(); ++row) {
      if (labels[row] != kUnlabeled) rows.push_back(static_cast<RowIndex>(row));
    }
    report_ = {.labels = rows.size(), .support_vectors = rows.size()};
    report_.kernel_update = gram_.Update(rows);
    ListExamples(labels);
    const LogisticProblem problem{gram_.matrix(), classes_, present_.size(), costs_, parameters_.tolerance};
    LogisticSolver solver(problem, Start());
    solver.Solve();
    report_.iterations = solver.products();
    report_.objective = solver.objective();
    report_.converged = solver.converged();
    Remember(solver.result());
    return AssembleModel(solver.result(), class_count);
  }

  absl::Status FitProbabilities(SvmModel& model) const override {
    const bool same = present_.size() >= 2 && model.support_rows.size() == gram_.rows().size() &&
                      model.pairs.front().rho ==
                          last_intercepts_.of_class.at(present_[1]) - last_intercepts_.of_class.at(present_[0]);
    if (!same) {
      return absl::FailedPreconditionError(
          "probabilities can be fitted only to the model of the last training; train again first");
    }
    std::vector<std::uint32_t> by_row;  // the folds do not depend on the order of the matrix
    for (const RowIndex row : model.support_rows) by_row.push_back(static_cast<std::uint32_t>(gram_.PositionOf(row)));
    FULCRUM_ASSIGN_OR_RETURN(const ClassifierEntry* const entry, FindClassifier("logistic"));
    const GramExamples examples{gram_.matrix(), by_row, classes_, present_.size(), class_costs_, weights_of_};
    const double temperature = FitTemperature(*entry, examples, parameters_.seed);
    for (SvmPair& pair : model.pairs) pair.platt = {-temperature, 0};
    return absl::OkStatus();
  }

  void MoveTo(const kernel::Features& grown) override {
    features_ = &grown;
    gram_.MoveTo(grown);
  }

  void Reset() override {
    gram_ = kernel::RowSetKernel(parameters_.kernel, *features_);
    last_.clear();
    report_ = {};
  }

  const TrainingReport& report() const override { return report_; }

 private:
  /// The functions of the last training by row and class, so that they survive changes of labels and of the order.
  struct Coefficients {
    std::map<ClassIndex, double> of_class;
  };

  void ListExamples(std::span<const ClassIndex> labels) {
    class_costs_.clear();
    for (const ClassIndex index : present_) {
      const double weight =
          parameters_.class_weights.empty() ? 1 : parameters_.class_weights[static_cast<std::size_t>(index)];
      class_costs_.push_back(weight * parameters_.c);
    }
    classes_.clear();
    costs_.clear();
    weights_of_.clear();
    for (const RowIndex row : gram_.rows()) {
      const auto at = std::ranges::lower_bound(present_, labels[row]);
      classes_.push_back(static_cast<std::size_t>(at - present_.begin()));
      weights_of_.push_back(WeightOf(row));
      costs_.push_back(CostFactor(present_.size()) * class_costs_[classes_.back()] * weights_of_.back());
    }
  }

  Functions Start() {
    Functions start(gram_.rows().size(), present_.size());
    for (std::size_t i = 0; i < gram_.rows().size(); ++i) {
      const auto known = last_.find(gram_.rows()[i]);
      if (known == last_.end()) continue;
      report_.warm = true;
      for (std::size_t k = 0; k < present_.size(); ++k) {
        const auto value = known->second.of_class.find(present_[k]);
        if (value != known->second.of_class.end()) start.alpha(k, i) = value->second;
      }
    }
    for (std::size_t k = 0; k < present_.size(); ++k) {
      const auto value = last_intercepts_.of_class.find(present_[k]);
      if (value != last_intercepts_.of_class.end()) start.intercepts[k] = value->second;
    }
    return start;
  }

  void Remember(const Functions& fitted) {
    last_.clear();
    last_intercepts_ = {};
    for (std::size_t k = 0; k < present_.size(); ++k) {
      last_intercepts_.of_class[present_[k]] = fitted.intercepts[k];
      for (std::size_t i = 0; i < gram_.rows().size(); ++i) {
        last_[gram_.rows()[i]].of_class[present_[k]] = fitted.alpha(k, i);
      }
    }
  }

  SvmModel AssembleModel(const Functions& fitted, std::size_t class_count) const {
    SvmModel model;
    model.class_count = class_count;
    model.kernel = parameters_.kernel;
    model.support_rows.assign(gram_.rows().begin(), gram_.rows().end());
    std::ranges::sort(model.support_rows);
    for (std::size_t a = 0; a < present_.size(); ++a) {
      for (std::size_t b = a + 1; b < present_.size(); ++b) {
        model.pairs.push_back({.first = present_[a],
                               .second = present_[b],
                               .rho = fitted.intercepts[b] - fitted.intercepts[a],
                               .support_count = model.support_rows.size(),
                               .converged = report_.converged,
                               .has_platt = true,
                               .platt = {-1, 0}});
      }
    }
    // What was computed once is noted with the first pair, so that sums over the pairs are right.
    model.pairs.front().objective = report_.objective;
    model.pairs.front().iterations = report_.iterations;
    model.coefficients = Matrix<double>(model.support_rows.size(), model.pairs.size());
    for (std::size_t s = 0; s < model.support_rows.size(); ++s) {
      const std::size_t at = gram_.PositionOf(model.support_rows[s]);
      std::size_t pair = 0;
      for (std::size_t a = 0; a < present_.size(); ++a) {
        for (std::size_t b = a + 1; b < present_.size(); ++b) {
          model.coefficients(s, pair++) = fitted.alpha(a, at) - fitted.alpha(b, at);
        }
      }
    }
    return model;
  }

  SvmParameters parameters_;
  const kernel::Features* features_;
  kernel::RowSetKernel gram_;
  // Of the last training, the examples in the order of gram_.
  std::vector<ClassIndex> present_;
  std::vector<std::size_t> classes_;  // places in present_
  std::vector<double> costs_;         // by example
  std::vector<double> weights_of_;    // by example
  std::vector<double> class_costs_;   // by place in present_
  std::map<RowIndex, Coefficients> last_;
  Coefficients last_intercepts_;
  TrainingReport report_;
};

}  // namespace

std::unique_ptr<Classifier> MakeLogistic(const SvmParameters& parameters, const kernel::Features& features) {
  return std::make_unique<Logistic>(parameters, features);
}

}  // namespace fulcrum::classify
