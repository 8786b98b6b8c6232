// The span of the landmarks' kernel functions, and Rayleigh-Ritz of a class's kernel within it.
//
// With S the landmarks, L L' = K_SS (+ a little on the diagonal) and z(x) = L^-1 K(S, x), the kernel projected onto the
// span is z(x)'z(y). Its eigenvectors over a class are u_j(x) = w_j'z(x) / sqrt(theta_j), (theta, w) the eigenpairs of
// the n_s x n_s matrix H = sum over the class of z(x) z(x)' = L^-1 G L^-T, G the class's LandmarkGram. Taking the span
// of all landmarks instead of the top of their own spectrum costs little more and is far better where eigenvalues are
// nearly equal: the class decides which directions matter, not the sample.
//
// A plain value after construction; thread-safe for reading.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

/// The leading space of a class within the span.
struct SpanSolution {
  linalg::TopEigen eigen = {};    ///< of H: vectors are w_j; its trace_share and rank count the class's whole trace
  double captured_share = 0;      ///< trace(H) over the class's trace: no more can be seen from the landmarks
  Matrix<float> projection = {};  ///< rank x n_s: u_j(x) = its row j times K(S, x)
};

class LandmarkSpace {
 public:
  static absl::StatusOr<LandmarkSpace> Make(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                            std::span<const RowIndex> landmarks);

  std::size_t size() const { return lower_.rows(); }

  /// `gram` is the class's, and destroyed. `trace` is that of the class's kernel; k is the smallest rank that reaches
  /// tau of it, or tau of what the landmarks capture where that is less. `start` is an earlier solution's w, or empty.
  absl::StatusOr<SpanSolution> Solve(Matrix<double> gram, double trace, double tau, std::uint64_t seed,
                                     ConstMatrixView start) const;

  /// Every row c = K(S, x) becomes z(x).
  void Whiten(MutableMatrixView rows) const;

 private:
  Matrix<double> Project(Matrix<double> gram) const;

  Matrix<double> lower_;  // L
};

}  // namespace fulcrum::leverage
