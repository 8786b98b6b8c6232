// The span of some functions over the pool, and Rayleigh-Ritz of a class's kernel within it.
//
// The functions f_1 .. f_n are sums of kernel functions: those of the landmarks themselves, f_s = K(s, .), or K u_j for
// vectors u_j over a class (landmark_pass.h). With B their inner products in the kernel's space (K_SS, or U'KU), L L' =
// B and z(x) = L^-1 f(x), the kernel projected onto the span is z(x)'z(y). Its eigenvectors over a class are u_j(x) =
// w_j'z(x) / sqrt(theta_j), (theta, w) the eigenpairs of the n x n matrix H = sum over the class of z(x) z(x)' =
// L^-1 G L^-T, G the class's sum of f(x) f(x)'. Taking the span of all landmarks instead of the top of their own
// spectrum costs little more and is far better if eigenvalues are nearly equal: the class decides which directions
// matter, not the sample.
//
// A plain value after construction; thread-safe for reading.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

/// Vectors of a solution that a refinement begins with at most (landmark_pass.h).
inline constexpr std::size_t kMostRefinedVectors = 256;

/// The leading space of a class within the span.
struct SpanSolution {
  linalg::TopEigen eigen = {};    ///< of H: vectors are w_j; its trace_share and rank count the class's whole trace
  double captured_share = 0;      ///< trace(H) over the class's trace: the most that the functions can represent
  Matrix<float> projection = {};  ///< n x rank: u_j(x) = f(x)' times its column j
};

class KernelSubspace {
 public:
  /// Of the landmarks' kernel functions.
  static absl::StatusOr<KernelSubspace> OfLandmarks(const kernel::KernelFunction& kernel,
                                                    const kernel::Features& features,
                                                    std::span<const RowIndex> landmarks);
  /// Of functions with these inner products. InvalidArgument if they depend on each other.
  static absl::StatusOr<KernelSubspace> OfInnerProducts(Matrix<double> products);

  std::size_t size() const { return lower_.rows(); }

  /// `gram` is the class's, and destroyed. `trace` is that of the class's kernel; k is the smallest rank that reaches
  /// tau of it, or tau of what the functions capture if that is less. `start` is an earlier solution's w, or empty.
  absl::StatusOr<SpanSolution> Solve(Matrix<double> gram, double trace, double tau, std::uint64_t seed,
                                     ConstMatrixView start) const;

  /// The projection of the first `count` vectors of a solution, which may be more than its rank.
  Matrix<float> Projection(const linalg::TopEigen& eigen, std::size_t count) const;

  /// For each function the square of its part that is orthogonal to all others: 1 / (B^-1)_ss.
  std::vector<double> OwnParts() const;

  /// Every row f(x) becomes z(x).
  void Whiten(MutableMatrixView rows) const;

 private:
  Matrix<double> Project(Matrix<double> gram) const;

  Matrix<double> lower_;  // L
};

// How much scores can have moved since they were computed, without computing them again.
//
// In the landmarks' span l(x) = z(x)' M z(x) with M = sum of w_j w_j' / theta_j and |z(x)|^2 <= K(x, x), so no score
// moves by more than |M - M_before| K(x, x), which follows from the two small matrices. Pure functions, thread-safe.

/// The w_j / sqrt(theta_j) of a solution, one per row: M is the sum of their outer products.
Matrix<double> ScaledVectors(const linalg::TopEigen& eigen);

/// |M - M_before|, the largest eigenvalue by magnitude.
absl::StatusOr<double> LargestChange(ConstMatrixView now, ConstMatrixView before);

}  // namespace fulcrum::leverage
