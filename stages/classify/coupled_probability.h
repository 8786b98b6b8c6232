// Class probabilities from those of the pairs: the second method of Wu, Lin and Weng (2004).
#pragma once

#include <vector>

#include "stages/core/matrix.h"

namespace fulcrum::classify {

/// `pairwise`(i, j) = P(i | i or j), in (0, 1), with pairwise(j, i) = 1 - pairwise(i, j); the diagonal is not read.
/// Returns the p >= 0 with sum 1 that minimises sum over i != j of (pairwise(j, i) p_i - pairwise(i, j) p_j)^2. With
/// two classes that is the pair's own probability. Thread-safe.
std::vector<double> CoupleProbabilities(ConstMatrixView pairwise);

}  // namespace fulcrum::classify
