#include "stages/leverage/landmark_view.h"

#include <algorithm>

#include "stages/core/rows.h"
#include "stages/leverage/kernel_extension.h"

namespace fulcrum::leverage {
namespace {

/// Takes away from the landmarks in a block what only they themselves see of them.
void LeaveOneOut(const LandmarkResiduals& view, std::span<const RowIndex> block, MatrixView<float> u) {
  const std::span<const RowIndex> landmarks = view.landmarks->rows();
  for (std::size_t i = 0; i < block.size(); ++i) {
    const auto found = std::ranges::lower_bound(landmarks, block[i]);
    if (found == landmarks.end() || *found != block[i]) continue;
    const auto s = static_cast<std::size_t>(found - landmarks.begin());
    for (std::size_t j = 0; j < u.cols(); ++j) {
      u(i, j) -= static_cast<float>(view.unseen[s]) * (*view.projection)(s, j);
    }
  }
}

}  // namespace

LeadingVectors VectorsSeen(const LandmarkResiduals& view, std::span<const double> values) {
  return {values, [view](std::span<const RowIndex> block, std::size_t) {
            Matrix<float> u(block.size(), view.projection->cols());
            ExtendToBlock(*view.landmarks, view.projection->view(), view.landmarks->CopyBlock(block), u.view());
            if (!view.unseen.empty()) LeaveOneOut(view, block, u.view());
            return u;
          }};
}

}  // namespace fulcrum::leverage
