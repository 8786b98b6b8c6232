// The factories of all strategies, one file each in this folder; the registry lists them with their descriptions.
//
// Stateless and thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeAdaptiveHerding();

std::unique_ptr<Strategy> MakeAlevs();

std::unique_ptr<Strategy> MakeBadge();

std::unique_ptr<Strategy> MakeCommittee();

std::unique_ptr<Strategy> MakeDbalevs();

std::unique_ptr<Strategy> MakeEntropy();

std::unique_ptr<Strategy> MakeHerding();

std::unique_ptr<Strategy> MakeHybrid();

std::unique_ptr<Strategy> MakeKCenter();

std::unique_ptr<Strategy> MakeLeastConfident();

std::unique_ptr<Strategy> MakeLevOnAll();

std::unique_ptr<Strategy> MakeMargin();

std::unique_ptr<Strategy> MakeMostConfident();

std::unique_ptr<Strategy> MakeNearOpt();

std::unique_ptr<Strategy> MakeQuire();
/// Keeps this many candidates up to date; the batch does not depend on it.
std::unique_ptr<Strategy> MakeQuireWithShortlist(std::size_t shortlist);

std::unique_ptr<Strategy> MakeRandom();

std::unique_ptr<Strategy> MakeTed();

std::unique_ptr<Strategy> MakeTopLev();

std::unique_ptr<Strategy> MakeTypical();

std::unique_ptr<Strategy> MakeUncertaintyHerding();

/// How adaptive-herding covers a pool: the width, and a weight per reference.
struct CoverWeights {
  double width = 1;
  std::vector<double> weights = {};
};

/// From the squared distance of every reference to the nearest labeled row, and its margin.
CoverWeights AdaptiveCover(std::span<const double> nearest, std::span<const double> margins, double labels_per_class);

/// The margins that adaptive-herding uses if the predictions are those of another model, which come without: of least
/// squares on the labels, with targets +1 and -1 for one class against the rest. `labels` are those of `labeled`.
absl::StatusOr<std::vector<double>> MarginsOfLeastSquares(const kernel::Features& features,
                                                          const kernel::KernelFunction& kernel,
                                                          std::span<const RowIndex> labeled,
                                                          std::span<const ClassIndex> labels, std::size_t class_count,
                                                          std::span<const RowIndex> rows);

}  // namespace fulcrum::select
