// Who may be asked next while one class has fewer labels than another.
//
// A classifier on a few labels leans to the class that has more of them, and a kernel that is flat at this many
// dimensions gives it nothing to hold against that: it predicts one class everywhere. So the class with the fewest
// labels is asked for until it has caught up: with it b labels behind the mean of the others, the share 2^-b of C m
// candidates may be picked, those that are most likely its own, where C is the number of classes and m how many of the
// candidates seem to be in this one. C m is the pool where classes are of one size, and less where this one is rare,
// which a share of the whole pool would look for among too many others. The further it is behind, the less its last
// questions found what they looked for, and the surer the next must be. DBALEVS gives what is left over of a batch to
// the class with the fewest labels; this is the same for every single question. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::select {

/// Labels by class.
std::vector<std::size_t> LabelCounts(std::span<const ClassIndex> labels, std::size_t class_count);

/// One row a class: +n / 2n_c for its labeled examples and -n / 2(n - n_c) for the others, so that both sides weigh the
/// same in a regression on them.
Matrix<double> BalancedTargets(std::span<const ClassIndex> labels, std::span<const RowIndex> labeled,
                               std::span<const std::size_t> counts);

/// The class with the largest mean of each candidate.
std::vector<std::size_t> LikelyClasses(ConstMatrixView means);

/// One entry a row of `means` (candidates x classes): whether it may be picked. All where no class lags, and never
/// fewer than five where there are so many. A class without a label is unknown to the means and does not count.
std::vector<bool> EligibleForLaggingClass(std::span<const std::size_t> counts, ConstMatrixView means);

}  // namespace fulcrum::select
