#include "stages/classify/kernel_rounding.h"

#include <cmath>
#include <limits>

namespace fulcrum::classify {

KernelRounding BoundKernelRounding(const kernel::KernelFunction& kernel, std::size_t dims,
                                   double largest_squared_norm) {
  // |x.z| <= m, and GEMM's sum is off by at most dims * epsilon * m however it is ordered. `slope` is what that becomes
  // in K, |dK / d(x.z)| * m; the added constant covers the handful of roundings in K itself.
  const double m = largest_squared_norm;
  double slope = 1, largest = 1;
  switch (kernel.type) {
    case kernel::KernelType::kRbf:
      slope = 4 * m / (kernel.sigma * kernel.sigma);
      break;
    case kernel::KernelType::kLinear:
      if (!kernel.normalize) slope = largest = m;
      break;
    case kernel::KernelType::kCosine:
      break;
    case kernel::KernelType::kPoly:
      // By Cauchy and Schwarz x.z + c <= sqrt((|x|^2 + c)(|z|^2 + c)), so normalised values and slopes have these
      // bounds.
      if (!kernel.normalize) largest = std::pow(m + kernel.offset, kernel.degree);
      slope = kernel.degree * largest;
      break;
  }
  const double epsilon = std::numeric_limits<double>::epsilon();
  return {largest, epsilon * (static_cast<double>(dims) + 8) * (slope + largest)};
}

}  // namespace fulcrum::classify
