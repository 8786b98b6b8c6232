// The request and the result of an eigensolver: the smallest leading eigenspace of a positive
// semi-definite matrix that holds a share tau of its trace (METHOD: "rank from tau").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/matrix.h"

namespace fulcrum::linalg {

struct TopEigenRequest {
  /// k is the smallest rank whose top eigenvalues sum to at least tau * trace; in (0, 1].
  double tau = 0.5;
  /// Largest error of a leverage score that the caller accepts, estimated to first order.
  double score_tolerance = 5e-9;
  /// Seeds the random start block. The answer does not depend on it beyond the tolerance.
  std::uint64_t seed = 1;
  /// Last round's subspace for the same rows (vectors are rows of m), or empty to start cold.
  ConstMatrixView start = {};
  /// The matrix times `start`, if the caller has it without a product; or empty.
  ConstMatrixView start_multiplied = {};
  /// The dense solver had to take over for nearly this matrix before: let it do so at once.
  bool dense_at_once = false;
  /// Eigenvectors that a dense solver returns if the rank is less, with their products; 0: those of the rank alone.
  std::size_t vectors = 0;
  /// What a solver that does not hold the matrix may use for its vectors; 0: its own default.
  std::size_t basis_bytes = 0;
};

struct TopEigen {
  /// k, the rank that reaches tau.
  std::size_t rank = 0;
  /// The top k eigenvalues, largest first.
  std::vector<double> values;
  /// At least k x m: the first k rows are the eigenvectors of `values`; what follows are further
  /// Ritz vectors that make the next start warmer.
  Matrix<double> vectors;
  /// The matrix times `vectors`; empty from a dense solver, unless more than the rank were asked for.
  Matrix<double> multiplied;
  /// Sum of `values` over the trace: at least tau.
  double trace_share = 0;
  /// Largest |A u - lambda u| over the k pairs, relative to the largest eigenvalue.
  double residual = 0;
  /// Columns multiplied by A; zero for the dense engine.
  std::size_t products = 0;
  /// "dense", "krylov" or "tiled".
  std::string engine;
  /// Why that engine answered, in words for the report.
  std::string reason;
  /// True if the cut after k falls inside (numerically) equal eigenvalues, so that the scores are
  /// one choice of several.
  bool degenerate_cut = false;
};

/// The eigenvalue of a vector of `top`, also beyond the rank if the products are known.
double RitzValue(const TopEigen& top, std::size_t index);

// A symmetric positive semi-definite matrix known by its products.
//
// The eigensolvers ask for nothing else, so a kernel held in memory and one recomputed tile by tile
// look the same to them. Implementations are safe for concurrent Apply.

class SymmetricOperator {
 public:
  virtual ~SymmetricOperator() = default;
  virtual std::size_t size() const = 0;
  virtual double Trace() const = 0;
  /// y = x A for a block of vectors, one a row: x and y are width x size().
  virtual void Apply(ConstMatrixView x, MutableMatrixView y) const = 0;
  /// The matrix itself if it is in memory, for solvers that need all of it; an empty view otherwise.
  virtual ConstMatrixView Dense() const { return {}; }
};

/// A full (both triangles) matrix in memory. Does not own it.
class DenseSymmetricOperator final : public SymmetricOperator {
 public:
  explicit DenseSymmetricOperator(ConstMatrixView matrix);
  std::size_t size() const override { return matrix_.rows(); }
  double Trace() const override { return trace_; }
  void Apply(ConstMatrixView x, MutableMatrixView y) const override;
  ConstMatrixView Dense() const override { return matrix_; }

 private:
  ConstMatrixView matrix_;
  double trace_;
};

// Full symmetric eigendecomposition by LAPACK: the steps of dsyevd, but one that a StopScope can end.
//
// The divide and conquer on the tridiagonal matrix (dstedc), a tenth of the whole, cannot be interrupted: a stop leaves
// it to itself. Pure functions, thread-safe.

struct FullEigen {
  std::vector<double> values;  ///< ascending, as LAPACK gives them
  Matrix<double> vectors;      ///< row i is the eigenvector of values[i]
};

/// Largest matrix that divide and conquer (dstedc) takes: its workspace of more than n^2 elements is counted with 32
/// bits.
inline constexpr std::size_t kMostDenseRows = 46340;

/// All eigenpairs. Consumes the matrix, both triangles of which must be filled: LAPACK works in place.
/// ResourceExhausted for more than kMostDenseRows rows.
absl::StatusOr<FullEigen> DecomposeSymmetric(Matrix<double> matrix);

/// Smallest rank whose leading values sum to at least tau of the trace. `values` descending.
/// Values below zero (rounding) count as zero.
std::size_t RankForShare(std::span<const double> descending_values, double trace, double tau);

/// The top of the spectrum from a full decomposition of a copy of `matrix`.
absl::StatusOr<TopEigen> SolveTopEigenDense(ConstMatrixView matrix, const TopEigenRequest& request);

/// Largest |A u - lambda u| over the pairs of `top`, relative to the largest eigenvalue.
double LargestResidual(ConstMatrixView matrix, const TopEigen& top);

// The top of the spectrum of a dense symmetric matrix by LAPACK, without the other eigenvectors.
//
// Reduces the matrix to tridiagonal form, takes all eigenvalues from there (cheap), and computes only the vectors of
// those that reach tau: two to three times as fast as a full decomposition if these are few. Thread-safe.

/// The same answer as SolveTopEigenDense, to rounding.
absl::StatusOr<TopEigen> SolveTopEigenPartial(ConstMatrixView matrix, const TopEigenRequest& request);

// Tau-adaptive block Krylov (block Lanczos with full reorthogonalisation and Rayleigh-Ritz).
//
// The basis grows a block at a time until the Ritz values prove the rank k for tau and the residuals say
// that every leverage score is right to the tolerance. With a start subspace from an earlier, slightly
// different matrix, a few blocks are enough. Directions at the level of rounding errors are not added, and if the basis
// is invariant and holds the whole trace, the solver stops: a kernel of rank one takes two blocks. If the basis would
// grow beyond a set part of m, the dense solver is cheaper: the solver hands over and says so. If the matrix is known
// by its products only and memory is short, the basis is kept below a set size by thick restarts.

struct KrylovOptions {
  /// Vectors multiplied at a time: wide enough for the product to run at matrix speed.
  std::size_t block_width = 12;
  /// Largest basis as a part of m before the dense solver takes over (if the operator is dense).
  double largest_basis_share = 0.4;
  /// Vectors in the basis before it is restarted; 0: no limit.
  std::size_t largest_basis = 0;
  /// Ritz vectors in the answer, as a multiple of the rank: what follows the rank makes the next start warmer.
  std::size_t kept_per_rank = 4;
  /// TopEigen::engine of the answer.
  std::string name = "krylov";
};

/// ResourceExhausted if the rank does not fit into `largest_basis`. A start that does not help is dropped: a warm run
/// succeeds whenever a cold one does.
absl::StatusOr<TopEigen> SolveTopEigenKrylov(const SymmetricOperator& matrix, const TopEigenRequest& request,
                                             const KrylovOptions& options = {});

// A growing orthonormal basis V (vectors are rows) with its products V A and its projection T = V A V^T.
//
// Keeping V A costs a second basis in memory and buys exact residuals of any Ritz pair without another
// product, and expansion in any direction: Krylov blocks from a cold start, residuals from a warm one.
// Not thread-safe; its operations run in parallel inside.

/// Approximate eigenpairs from the projection: Ritz vector j is coefficients row j times V.
struct RitzPairs {
  std::vector<double> values;   ///< descending
  Matrix<double> coefficients;  ///< size x size
};

class KrylovBasis {
 public:
  /// `matrix` must outlive the basis. With a `largest` size its memory is set aside at once (and taken as it is used);
  /// without one, 0, it doubles.
  explicit KrylovBasis(const SymmetricOperator& matrix, std::size_t largest = 0);

  std::size_t size() const { return size_; }
  std::size_t dimension() const { return matrix_.size(); }
  /// Vectors multiplied by A so far.
  std::size_t products() const { return products_; }

  /// Adds the directions of `block` (destroyed) that are new. Returns how many were.
  std::size_t Expand(MutableMatrixView block);
  /// The same for a block that was computed with products of A: what is left of it outside the basis is compared with
  /// the rounding error of such a product, so that a kernel of low rank does not fill the basis with noise.
  std::size_t ExpandByProducts(MutableMatrixView block);
  /// Begins an empty basis with the directions of `block`, whose products are known already.
  std::size_t Begin(ConstMatrixView block, ConstMatrixView block_multiplied);
  /// Keeps the first `kept` Ritz vectors in place of the basis, and expands by the directions of `next` (destroyed)
  /// that the old basis did not have: with its last products, a thick restart (Wu and Simon 2000).
  std::size_t Restart(const RitzPairs& pairs, std::size_t kept, MutableMatrixView next);
  /// A times the vectors that the last Expand added: the next Krylov block.
  ConstMatrixView LastProducts() const;
  /// Trace of the projection: what the basis holds of the trace of A.
  double CapturedTrace() const;

  absl::StatusOr<RitzPairs> SolveProjection() const;
  /// Writes Ritz vectors from the one numbered `first` on, as many as `out` has rows.
  void WriteRitzVectors(const RitzPairs& pairs, std::size_t first, MutableMatrixView out) const;
  /// Writes A times the same vectors.
  void WriteRitzVectorsMultiplied(const RitzPairs& pairs, std::size_t first, MutableMatrixView out) const;

 private:
  void Reserve(std::size_t count);
  std::size_t ExpandAbove(double noise, MutableMatrixView block);
  /// Takes in the vectors that follow the basis in its storage, with their products.
  void Accept(std::size_t added);
  ConstMatrixView vectors() const { return vectors_.view().Rows(0, size_); }
  ConstMatrixView multiplied() const { return multiplied_.view().Rows(0, size_); }

  const SymmetricOperator& matrix_;
  std::size_t largest_;
  std::size_t size_ = 0;
  std::size_t last_added_ = 0;
  std::size_t products_ = 0;
  double longest_product_ = 0;  // |v A| over the vectors so far: a lower bound of the largest eigenvalue
  Matrix<double> vectors_;      // V
  Matrix<double> multiplied_;   // V A
  Matrix<double> projection_;   // T
};

// Whether Ritz pairs answer a TopEigenRequest: is the rank for tau known, and are the leverage scores settled?

struct RitzVerdict {
  bool rank_found = false;  ///< the Ritz values reach tau of the trace
  std::size_t rank = 0;
  bool converged = false;
  bool degenerate_cut = false;
  double largest_residual = 0;       ///< over the first k pairs, absolute
  std::size_t rank_lower_bound = 0;  ///< proven by the converged part of the spectrum
  Matrix<double> directions;         ///< residuals of the pairs that are not settled, to expand the basis with
  Matrix<double> vectors;            ///< the Ritz vectors that were looked at: the first k and some more
  Matrix<double> multiplied;         ///< the matrix times `vectors`
};

RitzVerdict JudgeRitzPairs(const KrylovBasis& basis, const RitzPairs& pairs, const TopEigenRequest& request,
                           double trace);

}  // namespace fulcrum::linalg
