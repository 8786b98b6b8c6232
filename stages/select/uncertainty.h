// The examples the classifier is least sure of: largest 1 - p(y*|x). In a batch: the b largest.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeUncertainty();

}  // namespace fulcrum::select
