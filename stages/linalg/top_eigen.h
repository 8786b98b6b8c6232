// The request and the result of an eigensolver: the smallest leading eigenspace of a positive
// semi-definite matrix that holds a share tau of its trace (METHOD: "rank from tau").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace fulcrum::linalg
