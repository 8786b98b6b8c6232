// Leverage and coverage early, uncertainty late: the paper's future work. One score a candidate from three ranks
// over the unlabeled, each scaled to [0, 1], ties averaged:
//   leverage     scaled by m/k inside the predicted class, as in ALEVS
//   coverage     posterior variance k(x,x) - k_l' (K_ll + 0.1 I)^-1 k_l, k the classifier's kernel
//   uncertainty  1 - p(y*|x)
//   s = w (leverage + coverage) / 2 + (1 - w) uncertainty,  w = 1 / (1 + t / 15),  t the queries so far.
// One query: the largest s. A batch: s takes the place of l in the set function of DBALEVS.
#pragma once

#include <memory>

#include "stages/select/strategy.h"

namespace fulcrum::select {

std::unique_ptr<Strategy> MakeHybrid();

}  // namespace fulcrum::select
