// How much annotators agree beyond chance: Cohen's kappa of two, Fleiss' kappa of many, Krippendorff's alpha with
// missing answers. All are 1 for full agreement and 0 for what chance gives.
//
// Classes are nominal. Pure functions, thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "stages/consensus/dawid_skene.h"
#include "stages/core/rows.h"

namespace fulcrum::consensus {

/// Of two annotators, by the items that both answered, in the same order. Nothing if there is none, or if chance alone
/// gives full agreement.
std::optional<double> CohenKappa(std::span<const ClassIndex> first, std::span<const ClassIndex> second,
                                 std::size_t classes);

/// The mean of Cohen's kappa over all pairs of annotators that share at least `least_shared` items, weighted by the
/// number of shared items, and for each annotator the same mean over its own pairs.
struct PairwiseKappa {
  std::optional<double> overall = {};
  std::vector<std::optional<double>> of_annotator = {};
};
PairwiseKappa MeanCohenKappa(std::span<const Vote> votes, std::size_t annotators, std::size_t classes,
                             std::size_t least_shared = 5);

/// Of all items with at least two votes. Items may have different numbers of votes: the agreement of an item is the
/// share of its pairs of votes that agree. Equal to the usual definition if the numbers are equal.
std::optional<double> FleissKappa(std::span<const Vote> votes, std::size_t items, std::size_t classes);

/// 1 - observed / expected disagreement, nominal; items with one vote do not count.
std::optional<double> KrippendorffAlpha(std::span<const Vote> votes, std::size_t items, std::size_t classes);

}  // namespace fulcrum::consensus
