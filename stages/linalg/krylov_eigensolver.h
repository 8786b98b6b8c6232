// Tau-adaptive block Krylov (block Lanczos with full reorthogonalisation and Rayleigh-Ritz).
//
// The basis grows a block at a time until the Ritz values prove the rank k for tau and the residuals say
// that every leverage score is right to the tolerance. With a start subspace from an earlier, slightly
// different matrix, a few blocks are enough. Directions at the level of rounding errors are not added, and if the basis
// is invariant and holds the whole trace, the solver stops: a kernel of rank one takes two blocks. If the basis would
// grow beyond a set part of m, the dense solver is cheaper: the solver hands over and says so. If the matrix is known
// by its products only and memory is short, the basis is kept below a set size by thick restarts.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::linalg {

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

}  // namespace fulcrum::linalg
