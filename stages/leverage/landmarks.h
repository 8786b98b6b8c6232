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

#include <cstddef>
#include <cstdint>
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

// Landmarks and samples of a class, and how landmark scores compare with exact ones on a sample.
//
// Pure functions, thread-safe.

/// The stream of the seed that landmarks are drawn from.
inline constexpr std::uint64_t kLandmarkStream = 11;
/// With fewer rows per landmark than this, landmarks are not corrected: if all rows are landmarks that is exact.
inline constexpr std::size_t kLeastRowsForOne = 2;

/// `count` of the rows, uniform and without repeats, ascending; all of them if they are fewer. The same seed and
/// stream give the same ones.
RowList SampleRows(std::span<const RowIndex> rows, std::size_t count, std::uint64_t seed, std::uint64_t stream);

/// The positions of these rows in a class of that size, ascending: they depend on nothing else.
std::vector<std::uint64_t> SamplePositions(std::size_t size, std::size_t count, std::uint64_t seed,
                                           std::uint64_t stream);

/// The part of a class of `class_rows` rows that is summed, if it has more than `most`: one of so many, chosen by a
/// hash of the row number alone, so that a row that stays in its class stays in the sum. `rows` are those of a process,
/// which count from `first_row` of the pool.
RowList SummedPart(std::span<const RowIndex> rows, std::size_t class_rows, std::size_t most,
                   std::uint64_t first_row = 0);

/// Treats the sample as a class, scores it exactly and within the landmarks' span (refined, if `refine`
/// says so), and lets both pick their best twentieth: the exact leverage that the span's picks collect, over what the
/// exact ones do.
absl::StatusOr<double> CollectedShare(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                      std::span<const RowIndex> landmarks, const KernelSubspace& span,
                                      std::span<const RowIndex> sample, double tau, bool refine);

// How many landmarks a class gets, what they cost, and when they are drawn anew.
//
// It depends only on sizes and the rows themselves, so that a restarted process decides as one that
// never ended. Pure functions, thread-safe.

/// As many as pay: the sum over a large class should not take much longer than scoring it, and that over a small class
/// may. 2,000 to 4,000, or all rows of a smaller class.
std::size_t DefaultLandmarks(std::size_t rows);
/// What an engine with so many landmarks holds at most.
std::size_t LandmarkBytes(std::size_t landmarks, std::size_t dims);

/// Whether landmarks no longer stand for a class that should have `wanted` of them: it has grown to twice what they
/// were drawn from, or many have left it.
bool CoverTooFew(std::span<const RowIndex> rows, std::span<const RowIndex> landmarks, std::size_t wanted);

}  // namespace fulcrum::leverage
