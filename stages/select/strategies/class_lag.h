// Restricts the candidates while one class has fewer labels than the others.
//
// A classifier trained on a few labels is biased to the class that has more of them, and with a kernel that is flat in
// many dimensions it predicts one class everywhere. Therefore the class with the fewest labels is queried until it has
// caught up: if it is b labels behind the mean of the others, the share 2^-b of C m candidates may be picked, those
// that most likely belong to it. C is the number of classes and m the number of candidates that appear to be in this
// class. C m is the pool if classes have equal sizes, and less if this class is rare, for which a share of the whole
// pool would include too many other examples. The further the class is behind, the fewer of its last queries found an
// example of it, and the more certain the next ones must be. DBALEVS gives the remainder of a batch to the class with
// the fewest labels; this does the same for single queries. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "stages/core/matrix.h"
#include "stages/core/rows.h"

namespace fulcrum::select {

/// Returns the number of labels per class.
std::vector<std::size_t> LabelCounts(std::span<const ClassIndex> labels, std::size_t class_count);

/// Returns one row per class: +n / 2n_c for its labeled examples and -n / 2(n - n_c) for the others, so that both sides
/// have equal weight in a regression.
Matrix<double> BalancedTargets(std::span<const ClassIndex> labels, std::span<const RowIndex> labeled,
                               std::span<const std::size_t> counts);

/// Returns the class with the largest mean per candidate.
std::vector<std::size_t> LikelyClasses(ConstMatrixView means);

/// Returns one entry per row of `means` (candidates x classes): whether it may be picked. All may be picked if no class
/// lags, and always at least five, if there are as many. A class without labels has no mean and is ignored.
std::vector<bool> EligibleForLaggingClass(std::span<const std::size_t> counts, ConstMatrixView means);

}  // namespace fulcrum::select
