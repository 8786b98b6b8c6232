// The factories of all strategies, one file each in this folder; the registry lists them with their descriptions.
//
// Stateless and thread-safe.
#pragma once

#include <cstddef>
#include <memory>

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

}  // namespace fulcrum::select
