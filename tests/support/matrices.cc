#include "tests/support/matrices.h"

#include <cmath>

#include "stages/core/random.h"

namespace fulcrum::testing {
namespace {

double DotOf(std::span<const double> x, std::span<const double> z) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * z[i];
  return sum;
}

double NaiveValue(const kernel::KernelFunction& kernel, std::span<const double> x, std::span<const double> z) {
  switch (kernel.type) {
    case kernel::KernelType::kRbf: {
      double distance = 0;
      for (std::size_t i = 0; i < x.size(); ++i) distance += (x[i] - z[i]) * (x[i] - z[i]);
      return std::exp(-distance / (kernel.sigma * kernel.sigma));
    }
    case kernel::KernelType::kLinear:
      return DotOf(x, z);
    case kernel::KernelType::kPoly:
      return std::pow(DotOf(x, z) + kernel.offset, kernel.degree);
    case kernel::KernelType::kCosine:
      return DotOf(x, z) / std::sqrt(DotOf(x, x) * DotOf(z, z));
    case kernel::KernelType::kSquaredDistance:
      return DotOf(x, x) + DotOf(z, z) - 2 * DotOf(x, z);
  }
  return 0;
}

}  // namespace

Matrix<double> RandomMatrix(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Random random(seed);
  Matrix<double> matrix(rows, cols);
  for (std::size_t row = 0; row < rows; ++row) {
    for (double& value : matrix.row(row)) value = random.Normal();
  }
  return matrix;
}

Matrix<double> NaiveKernel(const kernel::KernelFunction& kernel, ConstMatrixView a, ConstMatrixView b) {
  Matrix<double> values(a.rows(), b.rows());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t j = 0; j < b.rows(); ++j) {
      double value = NaiveValue(kernel, a.row(i), b.row(j));
      if (kernel.normalize) {
        value /= std::sqrt(NaiveValue(kernel, a.row(i), a.row(i)) * NaiveValue(kernel, b.row(j), b.row(j)));
      }
      values(i, j) = value;
    }
  }
  return values;
}

}  // namespace fulcrum::testing
