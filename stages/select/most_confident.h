// The examples the classifier is most sure of: largest p(y*|x). The published batch "uncertainty" sorted this
// way round; kept for comparison with it only.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeMostConfident();

}  // namespace fulcrum::select
