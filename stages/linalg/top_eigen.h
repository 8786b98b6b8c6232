// What an eigensolver is asked for and what it answers: the smallest leading eigenspace of a positive
// semi-definite matrix that holds a share tau of its trace (METHOD: "rank from tau").
#pragma once

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
  /// The matrix times `start`, where the caller has it cheaper than by multiplying; or empty.
  ConstMatrixView start_multiplied = {};
  /// The dense solver had to take over for nearly this matrix before: let it do so at once.
  bool dense_at_once = false;
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
  /// The matrix times `vectors`; empty from the dense engine.
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
  /// True where the cut after k falls inside (numerically) equal eigenvalues, so that the scores are
  /// one choice of several.
  bool degenerate_cut = false;
};

/// The eigenvalue of a vector of `top`, beyond the rank too where the products are known.
double RitzValue(const TopEigen& top, std::size_t index);

}  // namespace fulcrum::linalg
