#include "stages/kernel/kernel_function.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "stages/linalg/blas.h"

namespace fulcrum::kernel {
namespace {

template <typename T>
T IntegerPower(T base, int exponent) {
  T result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

template <typename T>
void ApplyRbf(double sigma, std::span<const T> a_norms, std::span<const T> b_norms, MatrixView<T> dots) {
  // A very small width has no finite inverse, and 0 times infinity is NaN: equal rows keep the value 1 this way.
  const T inverse = static_cast<T>(std::min(1 / (sigma * sigma), static_cast<double>(std::numeric_limits<T>::max())));
  for (std::size_t i = 0; i < dots.rows(); ++i) linalg::ExpOfDistances(a_norms[i], b_norms, inverse, dots.row(i));
}

template <typename T>
void ApplySquaredDistance(std::span<const T> a_norms, std::span<const T> b_norms, MatrixView<T> dots) {
  for (std::size_t i = 0; i < dots.rows(); ++i) {
    const std::span<T> row = dots.row(i);
    // Rounding may make the distance of a copy negative. NaN stays.
    for (std::size_t j = 0; j < row.size(); ++j) {
      const T squared = a_norms[i] + b_norms[j] - 2 * row[j];
      row[j] = squared < 0 ? T{0} : squared;
    }
  }
}

template <typename T>
void ApplyPoly(double offset, int degree, MatrixView<T> dots) {
  for (std::size_t i = 0; i < dots.rows(); ++i) {
    for (T& value : dots.row(i)) value = IntegerPower(value + static_cast<T>(offset), degree);
  }
}

/// Divides (i, j) by sqrt(a[i] b[j]); a row of norm zero has no direction and is similar to nothing.
template <typename T>
void DivideByRoots(std::span<const T> a, std::span<const T> b, MatrixView<T> values) {
  std::vector<T> b_factors(b.size());
  const auto factor = [](T square) { return square > 0 ? 1 / std::sqrt(square) : T{0}; };
  std::transform(b.begin(), b.end(), b_factors.begin(), factor);
  for (std::size_t i = 0; i < values.rows(); ++i) {
    const T a_factor = factor(a[i]);
    for (std::size_t j = 0; j < values.cols(); ++j) values(i, j) *= a_factor * b_factors[j];
  }
}

template <typename T>
std::vector<T> PolyDiagonals(const KernelFunction& kernel, std::span<const T> norms) {
  std::vector<T> diagonals(norms.size());
  std::transform(norms.begin(), norms.end(), diagonals.begin(),
                 [&](T norm) { return IntegerPower(norm + static_cast<T>(kernel.offset), kernel.degree); });
  return diagonals;
}

template <typename T>
void Apply(const KernelFunction& kernel, std::span<const T> a_norms, std::span<const T> b_norms, MatrixView<T> dots) {
  switch (kernel.type) {
    case KernelType::kRbf:
      ApplyRbf(kernel.sigma, a_norms, b_norms, dots);
      return;
    case KernelType::kLinear:
      if (kernel.normalize) DivideByRoots(a_norms, b_norms, dots);
      return;
    case KernelType::kCosine:
      DivideByRoots(a_norms, b_norms, dots);
      return;
    case KernelType::kPoly:
      ApplyPoly(kernel.offset, kernel.degree, dots);
      if (!kernel.normalize) return;
      DivideByRoots<T>(PolyDiagonals(kernel, a_norms), PolyDiagonals(kernel, b_norms), dots);
      return;
    case KernelType::kSquaredDistance:
      ApplySquaredDistance(a_norms, b_norms, dots);
      return;
  }
}

}  // namespace

absl::Status ValidateKernel(const KernelFunction& kernel) {
  if (kernel.type == KernelType::kRbf && !(kernel.sigma > 0 && std::isfinite(kernel.sigma))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the width sigma of the rbf kernel is %g; it must be a finite number above 0", kernel.sigma));
  }
  if (kernel.type == KernelType::kPoly && kernel.degree < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the degree of the poly kernel is %d; it must be 1 or more", kernel.degree));
  }
  if (kernel.type == KernelType::kPoly && !(kernel.offset >= 0 && std::isfinite(kernel.offset))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the offset c of the poly kernel is %g; below 0 it is no kernel, so it must be 0 or more", kernel.offset));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelType> ParseKernelType(std::string_view name) {
  for (KernelType type : {KernelType::kRbf, KernelType::kLinear, KernelType::kPoly, KernelType::kCosine}) {
    if (name == KernelTypeName(type)) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("there is no kernel '%s'; choose rbf, linear, poly or cosine", std::string(name)));
}

std::string_view KernelTypeName(KernelType type) {
  switch (type) {
    case KernelType::kRbf:
      return "rbf";
    case KernelType::kLinear:
      return "linear";
    case KernelType::kPoly:
      return "poly";
    case KernelType::kCosine:
      return "cosine";
    case KernelType::kSquaredDistance:
      return "squared distance";
  }
  return "unknown";
}

std::string DescribeKernel(const KernelFunction& kernel) {
  const std::string suffix = kernel.normalize ? ", normalized" : "";
  switch (kernel.type) {
    case KernelType::kRbf:
      return absl::StrFormat("rbf(sigma=%g%s)", kernel.sigma, suffix);
    case KernelType::kPoly:
      return absl::StrFormat("poly(c=%g, degree=%d%s)", kernel.offset, kernel.degree, suffix);
    default:
      return std::string(KernelTypeName(kernel.type)) + (kernel.normalize ? "(normalized)" : "");
  }
}

bool AlwaysInUnitInterval(const KernelFunction& kernel) {
  return kernel.type == KernelType::kRbf;
}

void ApplyKernelToDots(const KernelFunction& kernel, std::span<const double> a_norms, std::span<const double> b_norms,
                       MutableMatrixView dots) {
  Apply(kernel, a_norms, b_norms, dots);
}
void ApplyKernelToDots(const KernelFunction& kernel, std::span<const float> a_norms, std::span<const float> b_norms,
                       MatrixView<float> dots) {
  Apply(kernel, a_norms, b_norms, dots);
}

double KernelDiagonal(const KernelFunction& kernel, double squared_norm) {
  const bool has_direction = squared_norm > 0;
  switch (kernel.type) {
    case KernelType::kRbf:
      return 1;
    case KernelType::kCosine:
      return has_direction ? 1 : 0;
    case KernelType::kLinear:
      return kernel.normalize ? (has_direction ? 1 : 0) : squared_norm;
    case KernelType::kPoly: {
      const double value = IntegerPower(squared_norm + kernel.offset, kernel.degree);
      return kernel.normalize ? (value > 0 ? 1 : 0) : value;
    }
    case KernelType::kSquaredDistance:
      return 0;
  }
  return 0;
}

absl::Status CheckKernelValues(const KernelFunction& kernel, std::span<const double> squared_norms,
                               std::span<const RowIndex> rows, double largest) {
  const bool is_poly = kernel.type == KernelType::kPoly;
  for (const RowIndex row : rows) {
    const double norm = squared_norms[row];
    const double value = is_poly ? IntegerPower(norm + kernel.offset, kernel.degree) : norm;
    if (value <= largest) continue;  // false for NaN
    return absl::InvalidArgumentError(absl::StrFormat(
        "the kernel %s cannot be computed: row %d of the pool (counted from 0), whose features have a squared length "
        "of %g, gives %g, and the largest value that can be used is %g. Normalize the features, or choose %s",
        DescribeKernel(kernel), row, norm, value, largest,
        is_poly ? "a smaller degree or offset c." : "smaller features."));
  }
  return absl::OkStatus();
}

}  // namespace fulcrum::kernel
