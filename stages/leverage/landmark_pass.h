// The pass over a class that turns a solution in the landmarks' span into scores, and looks at how good it is on the
// way.
//
// Streams the rows in blocks; keeps the scores and, for a few sampled rows, what their residuals are made of. Sums are
// taken in a fixed order. Pure functions, thread-safe.
#pragma once

#include <span>
#include <vector>

#include "stages/core/block_stream.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/float_columns.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/landmark_space.h"

namespace fulcrum::leverage {

struct LandmarkPass {
  std::vector<double> scores = {};  ///< l(x) = |projection K(S, x)|^2, in the order of the rows
  double residual = 0;              ///< |K u_j - theta_j u_j| / theta_1, the largest over j, from the sampled rows
};

/// `landmarks` are the columns that the solution's projection is for; `sample` are some of `rows`, or empty where the
/// residual is not asked for.
LandmarkPass ScoreRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       const kernel::FloatColumns& landmarks, const SpanSolution& solution,
                       std::span<const RowIndex> rows, std::span<const RowIndex> sample, const BlockStream& stream);

}  // namespace fulcrum::leverage
