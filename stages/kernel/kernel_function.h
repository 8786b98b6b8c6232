// Kernel functions: rbf exp(-|x-z|^2 / sigma^2) (no factor 2), linear x.z, poly (x.z + c)^degree,
// cosine (linear on unit rows). METHOD section 1. Squared distances are evaluated in the same way, for selection; they
// are not a kernel, and no model or specification can name them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::kernel {

enum class KernelType { kRbf, kLinear, kPoly, kCosine, kSquaredDistance };

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

// The kernel matrix of a changing set of rows: a class group, or the labeled examples.
//
// The pool's kernel does not change between rounds, only the members of the set. Update() computes the rows and columns
// of new members and moves a few others into the places of removed ones, so that a round costs O(changed * m) instead
// of O(m^2). Not thread-safe for writing; concurrent reads are.

class RowSetKernel {
 public:
  struct UpdateStats {
    std::size_t entered = 0;
    std::size_t left = 0;
    bool rebuilt = false;  ///< too much changed for an update in place
  };

  /// The rows that the last Update removed and their kernel with the previous rows, for corrections of sums over the
  /// set.
  struct Departed {
    RowList others;         ///< all rows of the set before the update
    Matrix<double> values;  ///< removed rows (in the order of others) x others; empty if too many were removed
  };

  /// Keeps a reference to `features`, which must outlive it.
  RowSetKernel(const KernelFunction& kernel, const Features& features);

  /// Replaces the features by the same features with rows appended, which must outlive it; computed values stay.
  void MoveTo(const Features& grown);

  /// Makes the set equal to `rows` (any order, no repeats). The order of rows() may differ: rows that stay keep their
  /// places if possible.
  UpdateStats Update(std::span<const RowIndex> rows);

  const Departed& departed() const { return departed_; }
  /// The row behind each row and column of matrix().
  std::span<const RowIndex> rows() const { return rows_; }
  /// Position of a pool row in rows(); the row must be in the set.
  std::size_t PositionOf(RowIndex row) const { return position_[row]; }
  bool Contains(RowIndex row) const { return position_[row] != kAbsent; }
  /// Both triangles.
  ConstMatrixView matrix() const;
  const KernelFunction& kernel() const { return kernel_; }
  const Features& features() const { return *features_; }

 private:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

  void Rebuild(std::span<const RowIndex> rows);
  void RememberDeparted(std::span<const std::size_t> holes);
  void FillHoles(std::span<const RowIndex> entering, std::span<const std::size_t> holes);
  void MoveLastInto(std::span<const std::size_t> holes);
  void ComputeRows(std::span<const std::size_t> positions);
  void EnsureCapacity(std::size_t size);

  KernelFunction kernel_;
  const Features* features_;
  RowList rows_;
  std::vector<std::uint32_t> position_;  // by pool row
  Departed departed_;
  Matrix<double> storage_;  // capacity x capacity; the set's matrix is its leading block
};

}  // namespace fulcrum::kernel
