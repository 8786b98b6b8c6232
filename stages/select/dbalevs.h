// DBALEVS, paper section "Proposed Batch-Mode Active Learning Method": in each class the batch that maximises
// leverage less similarity, within itself and to the labeled.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeDbalevs();

}  // namespace fulcrum::select
