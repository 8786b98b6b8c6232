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
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/linalg/blas.h"

namespace fulcrum::classify {

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
  LogisticSolver(const LogisticProblem& problem, Functions start);

  void Solve();

  Functions& result() { return at_; }
  double objective() const { return objective_; }
  std::size_t products() const { return products_; }
  bool converged() const { return converged_; }

 private:
  /// values = K alpha. The functions of two classes are each other's negative: one product is enough.
  void Multiply(Functions& functions);

  /// Cross entropy of the functions `at_` moved along a direction, and the probabilities there if they are wanted.
  double Loss(const Functions* direction, double size, Matrix<double>* probabilities) const;

  double SquaredNorm(const Functions& a, const Functions& b) const;

  void ComputeGradient();

  /// alpha and intercepts of the Hessian times `of`; its values are not set.
  void ApplyHessian(const Functions& of, Functions& out) const;

  /// Conjugate gradients for Hessian * direction = -gradient.
  Functions NewtonDirection(double norm, double forcing);

  /// Moves along the direction as far as the objective falls. False if it does not fall: rounding errors hide it.
  bool Step(const Functions& direction);

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

/// Of the costs of all examples: the usual binary model has one function, not two of half its size.
inline double CostFactor(std::size_t class_count) {
  return class_count == 2 ? 0.5 : 1;
}

}  // namespace fulcrum::classify
