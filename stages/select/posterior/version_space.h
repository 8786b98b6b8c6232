// Samples from a version space: the vectors u in the unit ball with c_i . u >= 0 for every constraint c_i, which is a
// labeled example times its sign.
//
// Hit and run along the coordinate axes: from a point inside, move to a uniformly random point of the chord along a
// random axis. A move along an axis costs O(constraints), along a random direction O(constraints * dimensions), so a
// sample can use many more moves. Thread-safe; the same seed gives the same samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::select {

struct VersionSpaceSample {
  Matrix<double> vectors;  ///< one per row
  std::size_t dropped_count =
      0;  ///< constraints treated as label noise, because no vector was found that satisfies all
};

/// `constraints` has one row per constraint; its columns are the dimensions.
VersionSpaceSample SampleVersionSpace(ConstMatrixView constraints, std::size_t count, std::uint64_t seed);

// An orthonormal basis of the space spanned by some rows of a pool, computed from inner products only, so that it works
// for sparse and dense features: with anchors a_1..a_r and L L' their Gram matrix, the coordinates of x are L^-1
// (a_1.x, ..., a_r.x). Immutable and thread-safe after construction; keeps a reference to the features.

class SpanBasis {
 public:
  /// Processes `rows` in order and keeps those that add a direction.
  SpanBasis(const kernel::Features& features, std::span<const RowIndex> rows);

  /// The rows that were kept; their number is the dimension of the space.
  std::span<const RowIndex> anchors() const { return anchors_; }
  /// Returns the coordinates of the projection of each row on the space.
  Matrix<double> Coordinates(std::span<const RowIndex> rows) const;
  /// Converts vectors in these coordinates, one per row, to weights of the anchors, in place.
  void ToAnchorWeights(MutableMatrixView vectors) const;

 private:
  const kernel::Features& features_;
  RowList anchors_;
  Matrix<double> lower_;  // its leading block is L
};

}  // namespace fulcrum::select
