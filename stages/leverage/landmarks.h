// The span of some functions over the pool, and Rayleigh-Ritz of a class's kernel within it.
//
// The functions f_1 .. f_n are sums of kernel functions: those of the landmarks themselves, f_s = K(s, .), or K u_j for
// vectors u_j over a class (landmark_pass.cc). With B their inner products in the kernel's space (K_SS, or U'KU), L L'
// = B and z(x) = L^-1 f(x), the kernel projected onto the span is z(x)'z(y). Its eigenvectors over a class are u_j(x) =
// w_j'z(x) / sqrt(theta_j), (theta, w) the eigenpairs of the n x n matrix H = sum over the class of z(x) z(x)' =
// L^-1 G L^-T, G the class's sum of f(x) f(x)'. Taking the span of all landmarks instead of the top of their own
// spectrum costs little more and is far better if eigenvalues are nearly equal: the class decides which directions
// matter, not the sample.
//
// A plain value after construction; thread-safe for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/communicator.h"
#include "stages/core/matrix.h"
#include "stages/core/parallel.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

/// Vectors of a solution that a refinement begins with at most.
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

// The passes over the rows of a class that landmarks need: the sum of their kernel with the landmarks (LandmarkGram),
// the leading vectors at any rows, the scores with an estimate of how good they are, and their refinement.
//
// All of them stream the rows in blocks of float32 kernel tiles and keep nothing of the size of the class but its
// scores. Sums are taken in a fixed order, so that results do not depend on the number of threads. Functions are
// thread-safe.

// The pass that turns the leading vectors of a class into scores, and estimates their residual from a few sampled rows.

/// The leading vectors of a class as a function of a block of its rows.
struct LeadingVectors {
  std::span<const double> values = {};  ///< theta_j; needed for residuals only
  /// u_j(x) of a block of the rows, the one numbered `first` and those after it, one row per x. Thread-safe.
  std::function<Matrix<float>(std::span<const RowIndex> block, std::size_t first)> of_block = {};
};

struct LandmarkPass {
  std::vector<double> scores = {};  ///< l(x) = sum over j of u_j(x)^2, in the order of the rows
  double residual = 0;              ///< |K u_j - theta_j u_j| / theta_1, the largest over j, from the sampled rows
};

/// `sample` are some of `rows`, both ascending, or empty if the residual is not needed.
LandmarkPass ScoreRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       const LeadingVectors& vectors, std::span<const RowIndex> rows, std::span<const RowIndex> sample,
                       const BlockStream& stream);

// Functions that are sums of kernel functions, evaluated at blocks of rows: f_j(x) = sum over s of c(s, j) K(s, x).
//
// The tiles of the kernel are multiplied while they are in the cache, and nothing of them is kept. Pure functions,
// thread-safe.

/// Rows of a block that the functions below are best called with.
inline constexpr std::size_t kExtendedRows = kernel::KernelTiles<float>::kRows;

/// values(i, j) = f_j(row i of the block); `coefficients` has a row for every column of the kernel. One thread.
void ExtendToBlock(const kernel::KernelTiles<float>& columns, MatrixView<const float> coefficients,
                   const kernel::TileRows& block, MatrixView<float> values);

/// The same for many rows: values(i, j) = f_j(rows[i]).
Matrix<float> ExtendToRows(const kernel::KernelTiles<float>& columns, MatrixView<const float> coefficients,
                           std::span<const RowIndex> rows, const BlockStream& stream);

// The leading vectors of a class as its landmarks represent them, at any rows.
//
// A landmark's own kernel function lies inside the span, so that it is represented better than all other rows and gets
// too large a score: in a large isotropic class nearly all of the best rows would be landmarks. It is evaluated as if
// it were not a landmark: with r_s the part of K(s, s) that the other landmarks do not represent, u_j(s) - r_s P(s, j),
// P the projection (the leave-one-out residual of a kernel regression; the effect of s on the eigenvectors themselves
// stays). Pure functions, thread-safe.

struct LandmarkResiduals {
  const kernel::KernelTiles<float>* landmarks = nullptr;
  const Matrix<float>* projection = nullptr;
  std::span<const double> unseen = {};  ///< r_s by landmark; empty: landmarks are not corrected
  /// The rows of some consecutive landmarks, ascending, and the first of them; for a process that has some of the rows
  /// of a class. Otherwise the columns of `landmarks`.
  std::optional<std::span<const RowIndex>> own_rows = {};
  std::size_t first_own = 0;
};

/// Refers to what `view` refers to. `values` are needed for residuals only.
LeadingVectors VectorsSeen(const LandmarkResiduals& view, std::span<const double> values = {});

// The sum of c(x) c(x)' over the rows x of a class, c(x) = K(x, S) being a row's kernel with the landmarks S.
//
// All that Rayleigh-Ritz on the landmarks' span needs of the class, in n_s x n_s numbers for any number of rows. Rows
// can be added and subtracted again, so that a round visits only those whose class changed. Tiles are
// float32, sums are doubles, taken in a fixed order: the result does not depend on the number of threads. With a
// SumOrder it does not depend on how many processes have the rows either. Not thread-safe; its loops run in parallel
// inside.

/// What makes a sum independent of the processes that form it.
struct SumOrder {
  std::size_t unit = 0;  ///< products are over rows between multiples of this (RowsPerUnit); 0: over any rows
  double bound = 0;  ///< on the magnitude of every element of the sum; the products are rounded to exact terms of it
};

/// The order of the sums over a class, from the rows of the pool and of the class, and its largest K(x, x).
SumOrder OrderOfClass(std::size_t pool_rows, std::size_t class_rows, double largest_diagonal);

/// The sum of K(x, x) over some rows of a class, of exact terms: `bound` is at least the sum over the class.
double TraceOfRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                   std::span<const RowIndex> rows, double bound);

class LandmarkGram {
 public:
  /// Of no rows. `columns` (the landmarks) must outlive it.
  explicit LandmarkGram(const kernel::KernelTiles<float>& columns, const SumOrder& order = {});

  /// The root has the sum over the rows of all ranks afterwards.
  void SumOverRanks(const Communicator& peers);

  void Add(std::span<const RowIndex> rows, const BlockStream& stream) { Accumulate(rows, 1.0, stream); }
  void Subtract(std::span<const RowIndex> rows, const BlockStream& stream) { Accumulate(rows, -1.0, stream); }
  void Clear();

  /// Both triangles, times a factor.
  Matrix<double> Symmetric(double factor = 1) const;

 private:
  void Accumulate(std::span<const RowIndex> rows, double sign, const BlockStream& stream);
  void AddProducts(MatrixView<const float> values, double sign);

  const kernel::KernelTiles<float>& columns_;
  Matrix<double> upper_;  // tiles on and above the diagonal
  std::size_t unit_;
  ExactTerms terms_;
};

// Refinement: one product with the whole kernel of a class, which removes most of the error of landmarks.
//
// Vectors u_j that were computed from landmarks are off in two ways: they lack what lies outside the landmarks' span,
// and they favour the landmarks, which alone lie inside it. f_j = K u_j has both errors only as far as the end of the
// spectrum is large relative to theta_j. Rayleigh-Ritz on the f_j (landmarks.h) needs no second product: their
// inner products are U'F, the class's sum of f f' is F'F, and their leading vectors are those that the class's kernel
// has after a step and a half of subspace iteration. It costs m^2 kernel values, so it is for classes of some ten
// thousand rows. Pure functions, thread-safe; loops run in parallel inside.

struct RefinementRequest {
  double trace = 0;  ///< of the class's kernel
  double tau = 0.5;
  std::uint64_t seed = 1;
};

struct RefinedScores {
  std::size_t rank = 0;
  double trace_share = 0;
  LandmarkPass pass = {};  ///< scores, and their residual
};

/// Whether the product with the whole kernel is worth its time.
bool IsRefinable(std::size_t rows, std::size_t dims);
/// The memory that refining needs at most.
std::size_t RefinementBytes(std::size_t rows, std::size_t dims);

/// How many of the leading vectors of a solution to begin with; 0 if the rank is too large, or its last eigenvalues are
/// too small, for refining.
std::size_t VectorsToRefine(const linalg::TopEigen& eigen);

/// `start` are the u_j at `rows` (ascending), one row per x. The residual is estimated from `sample`, some of the rows.
absl::StatusOr<RefinedScores> Refine(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                     std::span<const RowIndex> rows, MatrixView<const float> start,
                                     const RefinementRequest& request, std::span<const RowIndex> sample,
                                     const BlockStream& stream);

/// The same for a kernel in memory: the scores. Vectors are rows of `start`.
absl::StatusOr<std::vector<double>> RefineInMemory(const linalg::SymmetricOperator& kernel, ConstMatrixView start,
                                                   const RefinementRequest& request);

}  // namespace fulcrum::leverage
