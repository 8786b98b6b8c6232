// ALEVS, paper section "Proposed Sequential Active Learning Method": the unlabeled example with the largest
// leverage score, scaled by m/k inside its class so that classes compare. In a batch: the b largest.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeAlevs();

}  // namespace fulcrum::select
