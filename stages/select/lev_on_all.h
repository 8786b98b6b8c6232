// Leverage over the whole pool, computed without classes: highest unlabeled first. One query a round in the paper.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeLevOnAll();

}  // namespace fulcrum::select
