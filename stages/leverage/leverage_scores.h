// Leverage scores of one set of rows. METHOD section 1, paper Definition of statistical leverage:
//   K = U S U^T, k the smallest rank with (sum of the top k eigenvalues) / trace(K) >= tau,
//   l_i = squared norm of row i of U's first k columns: 0 <= l_i <= 1, and they sum to k.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/kernel/kernel_tiles.h"
#include "stages/leverage/leverage_engine.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

struct LeverageRequest {
  double tau = 0.5;
  std::string engine = "auto";  ///< a name from the engine registry
  std::uint64_t seed = 1;
  ConstMatrixView start = {};             ///< last round's subspace over the rows now, or empty
  ConstMatrixView start_multiplied = {};  ///< the kernel times `start`, if known (see WarmStart)
  bool dense_at_once = false;             ///< do not try krylov: it failed for nearly the same rows
  std::size_t basis_bytes = 0;            ///< tiled: what its vectors may take; 0: the engine's default
};

struct LeverageScores {
  std::vector<double> scores;  ///< l_i in the order of the operator's rows, not scaled
  linalg::TopEigen eigen;      ///< rank, engine, reason, residual; its vectors start the next round
};

/// InvalidArgument for a tau outside (0, 1], and for a kernel whose trace leaves nothing to score.
absl::Status CheckScorable(double tau, std::size_t rows, double trace);

/// The eigen step alone: the leading eigenspace that holds tau of the trace. Checks the request.
absl::StatusOr<linalg::TopEigen> SolveLeadingSpace(const linalg::SymmetricOperator& kernel,
                                                   const LeverageRequest& request);

/// Both steps: scores of the rows behind `kernel` (which must be positive semi-definite).
absl::StatusOr<LeverageScores> ComputeLeverage(const linalg::SymmetricOperator& kernel, const LeverageRequest& request);

/// l_i = sum of squares of element i of the first `rank` vectors (vectors are rows).
std::vector<double> ScoresFromVectors(ConstMatrixView vectors, std::size_t rank);

/// The scores and the statement of quality of an exact engine, for the rows behind its kernel.
ClassScores ScoresOf(const linalg::TopEigen& eigen, std::span<const RowIndex> rows);

// Scores of a class whose kernel has a very low rank: identical rows, one binary feature, a linear kernel of few
// features.
//
// A few steps of pivoted Cholesky, one column of the kernel each, find out whether K = F F' with F of few columns. If
// so the leading eigenvectors follow from the small matrix F'F, without the m^2 kernel values that every other exact
// method computes; if not, the attempt costs a few columns. Pure function, thread-safe; loops run in parallel inside.

/// Smaller classes are cheap anyway.
inline constexpr std::size_t kFewestRowsOfLowRank = 2000;
/// A kernel of a higher rank is not a low one.
inline constexpr std::size_t kMostColumnsOfLowRank = 16;

/// Positions of some rows of a class with so many; a kernel has no lower rank than that of some of its rows.
std::vector<std::uint64_t> LowRankSample(std::size_t rows);

/// Whether the kernel of a sample has a low rank. Costs a few thousand kernel values, and spares nearly every class the
/// columns over all of its rows.
bool SampleHasLowRank(const kernel::KernelFunction& kernel, const kernel::Features& features,
                      std::span<const RowIndex> sample);

/// Nothing if the class is small, or its kernel is not of a low rank up to rounding errors.
absl::StatusOr<std::optional<ClassScores>> ScoreLowRank(const kernel::KernelFunction& kernel,
                                                        const kernel::Features& features,
                                                        std::span<const RowIndex> rows, double tau);

// Last round's subspace, carried over to this round's rows.
//
// Between rounds a class group loses and gains a few rows. Rows that stay keep their entries; those of a new row are
// extended from them (Nystroem: u(x) = K(x, .) u / lambda). The kernel times the subspace is carried over too: only the
// terms of rows that left and entered are computed, so that a start costs far less than a product with the kernel. It
// needs only the kernel's rows for those that left and entered, whether the matrix is in memory or recomputed. Not
// thread-safe.

struct StartSubspace {
  Matrix<double> vectors;      ///< vectors are rows; empty: start cold
  Matrix<double> multiplied;   ///< the vectors times the kernel matrix, or empty
  bool dense_at_once = false;  ///< the dense solver will be faster again
};

class WarmStart {
 public:
  /// Keeps the vectors of `eigen`, whose rows belong to the pool rows `rows`.
  void Remember(std::span<const RowIndex> rows, linalg::TopEigen eigen);

  /// A start for the current rows of `kernel`; empty if nothing is remembered or too many rows changed.
  StartSubspace For(const kernel::RowSetKernel& kernel) const;
  StartSubspace For(const kernel::TiledKernel& kernel) const;

 private:
  struct Change;
  /// The kernel of `count` of the new (or removed) rows, from number `first` on, with all current rows.
  using KernelRows = absl::FunctionRef<Matrix<double>(std::size_t first, std::size_t count)>;

  Change CompareRows(std::span<const RowIndex> rows_now) const;
  /// Whether a start would not help, or nothing is remembered.
  bool TooMuchIsNew(const Change& change) const;
  /// Entries of vectors over the previous rows, moved to the current rows; zero for new rows.
  Matrix<double> CarryEntries(const Change& change, ConstMatrixView old) const;
  StartSubspace CarryVectors(const Change& change, KernelRows of_newcomers) const;
  void ExtendToNewcomers(const Change& change, KernelRows of_newcomers, Matrix<double>& vectors) const;
  Matrix<double> CarryProducts(const Change& change, ConstMatrixView vectors, KernelRows of_newcomers,
                               KernelRows of_departed) const;

  RowList rows_;
  linalg::TopEigen eigen_;
  std::size_t dense_rounds_ = 0;  // in a row
};

}  // namespace fulcrum::leverage
