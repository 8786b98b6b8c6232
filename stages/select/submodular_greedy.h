// Greedy maximisation of the set function of DBALEVS over one class group. Paper, Definition "set scoring
// function", METHOD section 1, each unordered pair counted once:
//   F(S) = sum_{i in S} (l_i + 1) - (alpha / M) sum_{pairs {i,j} in S} K(i, j),   M = |A| + b
//   gain(x) = l_x + 1 - (alpha / M) sum_{i in S} K(x, i)
// starting from S = A, the labeled examples. Monotone and submodular for l >= 0, alpha in [0, 1] and K in
// [0, 1]; the caller checks these. l may be any score.
//
// The certificate: for any batch T and the greedy batch S, a positive semi-definite K has
// (1_T - 1_S)' K (1_T - 1_S) >= 0, so F is bounded by its tangent at S,
//   F(A + T) <= F(A) + (c/2) 1_S' K 1_S + sum_{x in T} [gain_S(x) + (c/2) K(x, x)],   c = alpha / M,
// and the sum over T by its b largest terms. It is the smaller of this and F(A) + the b largest first gains,
// which needs submodularity alone. (The usual F(S) + the b largest gains after S is not a bound here: F is
// monotone up to M examples only.)
//
// Sums of similarities grow in a fixed order (the labeled by row, then the picks as they come), so a gain is the
// same double whether it was computed lazily or not, in whatever order the group lists its rows, and by however
// many threads. Functions are thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::select {

struct GreedyProblem {
  std::span<const RowIndex> rows;        ///< behind each position; decides ties
  std::span<const double> scores;        ///< l, by position
  ConstMatrixView kernel;                ///< K, by position, both triangles
  std::span<const std::size_t> labeled;  ///< A, as positions in any order
  std::size_t batch = 0;                 ///< b
  double alpha = 0;
};

struct GreedyBatch {
  std::vector<std::size_t> positions;  ///< in the order they were chosen
  std::vector<double> gains;           ///< never increasing
  double value = 0;                    ///< F(A and the batch)
  /// No batch of this size has a larger F, for a positive semi-definite K.
  double upper_bound = 0;
  std::size_t evaluations = 0;  ///< gains computed after the first round, by lazy evaluation
};

/// The greedy batch: b positions, or all the unlabeled where they are fewer.
GreedyBatch MaximizeGreedily(const GreedyProblem& problem);

}  // namespace fulcrum::select
