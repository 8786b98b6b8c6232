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

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/linalg/blas.h"

namespace fulcrum::classify {

/// Functions and an intercept each. `values` is the functions at the examples without intercepts, K alpha.
struct Functions {
  Functions(std::size_t examples, std::size_t functions)
      : alpha(Matrix<double>::Zero(functions, examples)),
        values(Matrix<double>::Zero(functions, examples)),
        intercepts(functions, 0.0) {}

  Matrix<double> alpha;  // functions x examples
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
  /// Copies functions of the same shape.
  void Assign(const Functions& other) {
    for (std::size_t k = 0; k < alpha.rows(); ++k) {
      std::ranges::copy(other.alpha.row(k), alpha.row(k).begin());
      std::ranges::copy(other.values.row(k), values.row(k).begin());
    }
    intercepts = other.intercepts;
  }
  /// factor * these + other.
  void ScaleAndAdd(double factor, const Functions& other) {
    for (std::size_t k = 0; k < alpha.rows(); ++k) {
      ScaleAndAdd(factor, other.alpha.row(k), alpha.row(k));
      ScaleAndAdd(factor, other.values.row(k), values.row(k));
    }
    ScaleAndAdd(factor, other.intercepts, intercepts);
  }

 private:
  static void ScaleAndAdd(double factor, std::span<const double> from, std::span<double> to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = factor * to[i] + from[i];
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
  /// Begins with a function per class.
  LogisticSolver(const LogisticProblem& problem, const Functions& start);

  void Solve();

  /// A function per class.
  Functions result() const;
  double objective() const;
  std::size_t products() const { return products_; }
  bool converged() const { return converged_; }

 private:
  /// The functions of two classes are each other's negative, so there is only the first one of them.
  bool opposite() const { return problem_.class_count == 2; }

  /// values = K alpha.
  void Multiply(Functions& functions);

  /// Inner product in the kernel's space and of the intercepts, over all classes.
  double Dot(const Functions& a, const Functions& b) const { return (opposite() ? 2 : 1) * a.Dot(b); }
  /// The same without the intercepts, which cost nothing.
  double DotOfFunctions(const Functions& a, const Functions& b) const;

  /// Cross entropy of the functions `at_` moved along a direction.
  double Loss(const Functions* direction, double size) const;

  /// At `at_`, with the probabilities.
  void ComputeGradient();
  double GradientNorm() const;

  /// alpha and intercepts of the Hessian times `of`; the values of `out` are not set.
  void ApplyHessian(const Functions& of, Functions& out) const;

  /// Conjugate gradients for Hessian * direction_ = -gradient.
  void FindDirection(double norm, double forcing);

  /// Moves along direction_ as far as the objective falls. False if it does not fall: rounding errors hide it.
  bool Step();

  const LogisticProblem& problem_;
  Functions at_;
  Matrix<double> probabilities_;  // at `at_`, functions x examples
  Matrix<double> curvatures_;     // of the loss of each example, if there are two classes
  Functions gradient_;
  Functions before_;                                   // the step
  Functions direction_, residual_, search_, product_;  // of conjugate gradients
  double small_gradient_ = 0;
  std::size_t products_ = 0;
  bool converged_ = true;
};

/// Of the costs of all examples: the usual binary model has one function, not two of half its size.
inline double CostFactor(std::size_t class_count) {
  return class_count == 2 ? 0.5 : 1;
}

}  // namespace fulcrum::classify
