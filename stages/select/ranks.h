// Ranks in place of values, so that scores of different kinds can be mixed.
#pragma once

#include <span>
#include <vector>

namespace fulcrum::select {

/// The rank of each value, scaled so that the smallest is 0 and the largest 1. Equal values share the mean of
/// their ranks; a single value, or values all equal, get 1/2.
std::vector<double> ScaledRanks(std::span<const double> values);

}  // namespace fulcrum::select
