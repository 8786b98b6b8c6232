// Kernel functions: rbf exp(-|x-z|^2 / sigma^2) (no factor 2), linear x.z, poly (x.z + c)^degree,
// cosine (linear on unit rows). METHOD section 1.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::kernel {

enum class KernelType { kRbf, kLinear, kPoly, kCosine };

/// A kernel and its parameters; those of other types are ignored.
/// Of poly, as in the paper, wherever none is given.
inline constexpr int kDefaultDegree = 4;

struct KernelFunction {
  KernelType type = KernelType::kRbf;
  double sigma = 1;             ///< rbf: width
  double offset = 1;            ///< poly: c
  int degree = kDefaultDegree;  ///< poly
  bool normalize = false;       ///< divide by sqrt(K(i,i) K(j,j)), so that the diagonal is one

  /// Whether two kernels give the same values.
  friend bool operator==(const KernelFunction&, const KernelFunction&) = default;
};

/// Rejects sigma <= 0, degree < 1 and values that are not finite.
absl::Status ValidateKernel(const KernelFunction& kernel);

absl::StatusOr<KernelType> ParseKernelType(std::string_view name);
std::string_view KernelTypeName(KernelType type);
/// "rbf(sigma=2)", for reports and messages.
std::string DescribeKernel(const KernelFunction& kernel);

/// Whether every value is sure to lie in [0, 1] for any data (rbf), which DBALEVS needs.
bool AlwaysInUnitInterval(const KernelFunction& kernel);

/// Turns inner products into kernel values in place. `a_norms` and `b_norms` are the squared norms of
/// the rows behind the rows and the columns of `dots`.
void ApplyKernelToDots(const KernelFunction& kernel, std::span<const double> a_norms, std::span<const double> b_norms,
                       MutableMatrixView dots);
void ApplyKernelToDots(const KernelFunction& kernel, std::span<const float> a_norms, std::span<const float> b_norms,
                       MatrixView<float> dots);

/// K(x, x) for a row with this squared norm.
double KernelDiagonal(const KernelFunction& kernel, double squared_norm);

/// Values above it overflow when they are squared and summed in double precision.
inline constexpr double kLargestValue = 1e150;

/// InvalidArgument that names the first of the rows whose K(x, x), before it is normalized, is above `largest` or not
/// finite. |K(x, z)| is at most the larger of K(x, x) and K(z, z), so no other value needs a check.
absl::Status CheckKernelValues(const KernelFunction& kernel, std::span<const double> squared_norms,
                               std::span<const RowIndex> rows, double largest = kLargestValue);

}  // namespace fulcrum::kernel
