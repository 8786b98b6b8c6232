// The b highest leverage scores over the whole pool: lev-on-all under the name the paper uses for batches.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeTopLev();

}  // namespace fulcrum::select
