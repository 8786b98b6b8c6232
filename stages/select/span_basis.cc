#include "stages/select/span_basis.h"

#include <algorithm>
#include <cmath>

#include "stages/linalg/blas.h"
#include "stages/linalg/cholesky.h"

namespace fulcrum::select {
namespace {

// A row that lies within this part of its squared length of the space so far adds rounding, not a direction.
constexpr double kNewDirectionShare = 1e-8;

}  // namespace

SpanBasis::SpanBasis(const kernel::Features& features, std::span<const RowIndex> rows) : features_(features) {
  const std::size_t most = std::min(rows.size(), features.dims());
  lower_ = Matrix<double>::Zero(most, most);
  Matrix<double> gram(rows.size(), rows.size());
  features.DotBlock(rows, features, rows, gram.view());
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < rows.size() && kept.size() < most; ++i) {
    const auto candidate = lower_.row(kept.size());
    double left = gram(i, i);
    for (std::size_t j = 0; j < kept.size(); ++j) {
      const auto before = std::span<const double>(lower_.row(j)).first(j);
      candidate[j] = (gram(i, kept[j]) - linalg::Dot(before, candidate.first(j))) / lower_(j, j);
      left -= candidate[j] * candidate[j];
    }
    if (!(left > kNewDirectionShare * gram(i, i))) continue;
    candidate[kept.size()] = std::sqrt(left);
    kept.push_back(i);
    anchors_.push_back(rows[i]);
  }
}

Matrix<double> SpanBasis::Coordinates(std::span<const RowIndex> rows) const {
  Matrix<double> coordinates(rows.size(), anchors_.size());
  if (coordinates.empty()) return coordinates;
  features_.DotBlock(rows, features_, anchors_, coordinates.view());
  linalg::SolveLowerForRows(lower_.view().Block(0, 0, anchors_.size(), anchors_.size()), coordinates.view());
  return coordinates;
}

void SpanBasis::ToAnchorWeights(MutableMatrixView vectors) const {
  linalg::SolveLowerTransposedForRows(lower_.view().Block(0, 0, anchors_.size(), anchors_.size()), vectors);
}

}  // namespace fulcrum::select
