// Near-optimal batch mode active learning (Chen and Krause 2013). METHOD section 2: 300 linear hypotheses with
// bias from the version space (hypothesis_sampler.h); then b times the example that leaves the smallest expected
// mass of hypotheses, with label noise 0.02 (remaining_mass.h). C > 2 classes: a hypothesis is C one-against-rest
// functions and predicts the class of the largest.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeNearOpt();

}  // namespace fulcrum::select
