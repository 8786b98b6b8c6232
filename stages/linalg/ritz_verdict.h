// Whether Ritz pairs answer a TopEigenRequest: is the rank for tau known, and are the leverage scores settled?
#pragma once

#include <vector>

#include "stages/core/matrix.h"
#include "stages/linalg/krylov_basis.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::linalg {

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
