#include "stages/classify/coupled_probability.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace fulcrum::classify {
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
    // Both products afresh in every sweep: the updates below let rounding errors grow.
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
