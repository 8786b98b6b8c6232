// The pass over a class that turns its leading vectors into scores, and looks at how good they are on the way.
//
// Streams the rows in blocks; keeps the scores and, for a few sampled rows, what their residuals are made of. Sums are
// taken in a fixed order. Pure functions, thread-safe.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "stages/core/block_stream.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"

namespace fulcrum::leverage {

/// The leading vectors of a class, known by what they are at a block of its rows.
struct LeadingVectors {
  std::span<const double> values = {};  ///< theta_j; needed for residuals only
  /// u_j(x) of a block of the rows, the one numbered `first` and those behind it, a row an x. Thread-safe.
  std::function<Matrix<float>(std::span<const RowIndex> block, std::size_t first)> of_block = {};
};

struct LandmarkPass {
  std::vector<double> scores = {};  ///< l(x) = sum over j of u_j(x)^2, in the order of the rows
  double residual = 0;              ///< |K u_j - theta_j u_j| / theta_1, the largest over j, from the sampled rows
};

/// `sample` are some of `rows`, both ascending, or empty where the residual is not asked for.
LandmarkPass ScoreRows(const kernel::KernelFunction& kernel, const kernel::Features& features,
                       const LeadingVectors& vectors, std::span<const RowIndex> rows, std::span<const RowIndex> sample,
                       const BlockStream& stream);

}  // namespace fulcrum::leverage
