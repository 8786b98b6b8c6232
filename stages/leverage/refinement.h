// One product with the whole kernel of a class, which takes away most of what landmarks leave out.
//
// Vectors u_j that were seen from landmarks are off in two ways: they lack what lies outside the landmarks' span, and
// they flatter the landmarks, which alone lie wholly inside it. f_j = K u_j has both only as far as the far end of the
// spectrum is large beside theta_j. Rayleigh-Ritz on the f_j (kernel_subspace.h) needs no second product: their inner
// products are U'F, the class's sum of f f' is F'F, and their leading vectors are those that the class's kernel has
// after a step and a half of subspace iteration. It costs m^2 kernel values, so it is for classes of some ten thousand
// rows. Pure functions, thread-safe; loops run in parallel inside.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "stages/core/block_stream.h"
#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"
#include "stages/kernel/kernel_function.h"
#include "stages/leverage/landmark_pass.h"
#include "stages/linalg/top_eigen.h"

namespace fulcrum::leverage {

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

/// Whether so much work is worth its time, whoever asks.
bool IsRefinable(std::size_t rows, std::size_t dims);
/// What refining holds at the most.
std::size_t RefinementBytes(std::size_t rows, std::size_t dims);

/// How many of the leading vectors of a solution to begin with; 0 where the rank is too large, or its end too near
/// nothing, for refining.
std::size_t VectorsToRefine(const linalg::TopEigen& eigen);

/// `start` are the u_j at `rows` (ascending), a row an x. The residual is estimated from `sample`, some of the rows.
absl::StatusOr<RefinedScores> Refine(const kernel::KernelFunction& kernel, const kernel::Features& features,
                                     std::span<const RowIndex> rows, MatrixView<const float> start,
                                     const RefinementRequest& request, std::span<const RowIndex> sample,
                                     const BlockStream& stream);

/// The same for a kernel in memory: the scores. Vectors are rows of `start`.
absl::StatusOr<std::vector<double>> RefineInMemory(const linalg::SymmetricOperator& kernel, ConstMatrixView start,
                                                   const RefinementRequest& request);

}  // namespace fulcrum::leverage
