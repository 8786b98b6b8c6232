// Uniform over the unlabeled, without replacement. Seeded by the candidates' seed and the queries so far, so
// that the rounds of one campaign differ and a repeated round does not.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeRandom();

}  // namespace fulcrum::select
