// Samples from a version space: the vectors u in the unit ball with c_i . u >= 0 for every constraint c_i, a labeled
// example times its sign.
//
// Hit and run along the coordinate axes: from a point inside, go to a uniformly random point of the chord along a
// random axis. An axis costs O(constraints) where a random direction costs O(constraints * dimensions), so a sample
// can afford many more moves. Thread-safe; same seed, same samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"
#include "stages/kernel/features.h"

namespace fulcrum::select {

struct VersionSpaceSample {
  Matrix<double> vectors;         ///< one a row
  std::size_t dropped_count = 0;  ///< constraints taken for label noise, because no vector was found to meet them all
};

/// `constraints` has one row a constraint; its columns are the dimensions.
VersionSpaceSample SampleVersionSpace(ConstMatrixView constraints, std::size_t count, std::uint64_t seed);

// An orthonormal basis of the space that some rows of a pool span, known by inner products alone, so that sparse
// and dense features serve alike: with anchors a_1..a_r and L L' their Gram matrix, the coordinates of x are
// L^-1 (a_1.x, ..., a_r.x). Immutable and thread-safe after construction; keeps a reference to the features.

class SpanBasis {
 public:
  /// Goes through `rows` in order and keeps those that add a direction.
  SpanBasis(const kernel::Features& features, std::span<const RowIndex> rows);

  /// The rows kept; there are as many as the space has dimensions.
  std::span<const RowIndex> anchors() const { return anchors_; }
  /// Coordinates of each row's projection on the space.
  Matrix<double> Coordinates(std::span<const RowIndex> rows) const;
  /// Turns vectors in these coordinates, one a row, into weights of the anchors, in place.
  void ToAnchorWeights(MutableMatrixView vectors) const;

 private:
  const kernel::Features& features_;
  RowList anchors_;
  Matrix<double> lower_;  // its leading block is L
};

}  // namespace fulcrum::select
