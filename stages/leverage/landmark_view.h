// The leading vectors of a class as its landmarks show them, at any rows.
//
// A landmark's own kernel function lies wholly in the span, so that it is seen better than all other rows and gets too
// large a score: of a large isotropic class the best rows would be landmarks nearly without exception. It is shown as
// it would be if it were none: with r_s the part of K(s, s) that the other landmarks do not see, u_j(s) - r_s P(s, j),
// P the projection (the leave-one-out residual of a kernel regression; what s does to the eigenvectors themselves is
// left in). Pure functions, thread-safe.
#pragma once

#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/kernel/float_columns.h"
#include "stages/leverage/landmark_pass.h"

namespace fulcrum::leverage {

struct LandmarkResiduals {
  const kernel::FloatColumns* landmarks = nullptr;
  const Matrix<float>* projection = nullptr;
  std::span<const double> unseen = {};  ///< r_s by landmark; empty: landmarks are shown as they lie in the span
};

/// Refers to what `view` refers to. `values` are needed for residuals only.
LeadingVectors VectorsSeen(const LandmarkResiduals& view, std::span<const double> values = {});

}  // namespace fulcrum::leverage
