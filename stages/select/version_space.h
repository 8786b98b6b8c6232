// Samples from a version space: the vectors u in the unit ball with c_i . u >= 0 for every constraint c_i, a labeled
// example times its sign.
//
// Hit and run along the coordinate axes: from a point inside, go to a uniformly random point of the chord along a
// random axis. An axis costs O(constraints) where a random direction costs O(constraints * dimensions), so a sample
// can afford many more moves. Thread-safe; same seed, same samples.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stages/core/matrix.h"

namespace fulcrum::select {

struct VersionSpaceSample {
  Matrix<double> vectors;         ///< one a row
  std::size_t dropped_count = 0;  ///< constraints taken for label noise, because no vector was found to meet them all
};

/// `constraints` has one row a constraint; its columns are the dimensions.
VersionSpaceSample SampleVersionSpace(ConstMatrixView constraints, std::size_t count, std::uint64_t seed);

}  // namespace fulcrum::select
